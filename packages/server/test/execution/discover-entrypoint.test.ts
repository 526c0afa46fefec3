import {
  AgentWorkflow,
  defineGraderConfig,
  defineWorkflowConfig,
  Grader,
  GroupGrader,
} from '@osmosis/core'
import { discoverEntrypoint, discoverGrader } from '@osmosis/server/execution'
import { expect, it, vi } from 'vitest'

class Search extends AgentWorkflow {
  async run(): Promise<void> {}
}
class Other extends AgentWorkflow {
  async run(): Promise<void> {}
}
abstract class Unfinished extends AgentWorkflow {}
class Exact extends Grader {
  async grade(): Promise<void> {}
}
const workflowConfig = defineWorkflowConfig({ name: 'w' })
const graderConfig = defineGraderConfig({ name: 'g' })

it('finds the workflow, the grader and the config of each kind among other exports', () => {
  expect(
    discoverEntrypoint({
      Search,
      Exact,
      workflowConfig,
      graderConfig,
      helper: () => {},
      limit: 3,
      nothing: null,
      AgentWorkflow,
      Grader,
    }),
  ).toEqual({ workflow: Search, grader: Exact, workflowConfig, graderConfig })
})

it('requires neither a grader nor a config', () => {
  expect(discoverEntrypoint({ Search })).toEqual({
    workflow: Search,
    grader: undefined,
    workflowConfig: undefined,
    graderConfig: undefined,
  })
})

it('counts an export with several names once, and ignores base classes without run', () => {
  expect(discoverEntrypoint({ default: Search, Search, Unfinished }).workflow).toBe(Search)
})

it.each([
  [
    {},
    'No AgentWorkflow subclass with a run() method is exported from main.ts (exports: none). Export the one class that extends AgentWorkflow.',
  ],
  [
    { Exact, Unfinished },
    'No AgentWorkflow subclass with a run() method is exported from main.ts (exports: Exact, Unfinished). Export the one class that extends AgentWorkflow.',
  ],
  [
    { Search, Other },
    'Several AgentWorkflow subclasses are exported from main.ts: Other, Search. Export only the one to run; move the others to files of their own.',
  ],
  [
    { Search, a: workflowConfig, b: defineWorkflowConfig({ name: 'x' }) },
    'Several workflow configs are exported from main.ts: a, b. Export only the one to run; move the others to files of their own.',
  ],
])('reports what was found in %o and what to do', (exports, message) => {
  expect(() => discoverEntrypoint(exports, 'main.ts')).toThrow(
    expect.objectContaining({ code: 'invalid_entrypoint', message }),
  )
})

async function secondCopy(): Promise<{
  AgentWorkflow: typeof AgentWorkflow
  GroupGrader: typeof GroupGrader
}> {
  vi.resetModules()
  return import('@osmosis/core')
}

it('recognises the classes of another installed copy of the package', async () => {
  const copy = await secondCopy()
  class Foreign extends copy.AgentWorkflow {
    async run(): Promise<void> {}
  }
  expect(Foreign.prototype).not.toBeInstanceOf(AgentWorkflow)
  expect(discoverEntrypoint({ Foreign }).workflow).toBe(Foreign)
})

it('finds the grader of a module without a workflow, also one of several by its name', () => {
  class Loose extends Grader {
    async grade(): Promise<void> {}
  }
  const configs = { workflowConfig: undefined, graderConfig }
  expect(discoverGrader({ Exact, graderConfig })).toEqual({ ...configs, grader: Exact })
  const exports = { Exact, Loose, graderConfig, number: 5 }
  expect(discoverGrader(exports, 'graders.ts', 'Loose')).toEqual({ ...configs, grader: Loose })
  expect(discoverGrader(exports, 'graders.ts', 'number')).toEqual({ ...configs, grader: undefined })
  expect(() => discoverGrader(exports, 'graders.ts')).toThrow(
    expect.objectContaining({
      code: 'invalid_entrypoint',
      message: expect.stringContaining('Several graders are exported from graders.ts'),
    }),
  )
})

it('accepts a group grader instead of a grader, but not both', () => {
  class Ranks extends GroupGrader {
    async gradeGroup(): Promise<void> {}
  }
  expect(discoverEntrypoint({ Search, Ranks, GroupGrader }).grader).toBe(Ranks)
  expect(discoverGrader({ Ranks, graderConfig })).toMatchObject({ grader: Ranks, graderConfig })
  expect(() => discoverEntrypoint({ Search, Ranks, Exact }, 'main.ts')).toThrow(
    'Several graders are exported from main.ts: Exact, Ranks.',
  )
})

it('recognises group graders of another installed copy of the package', async () => {
  const copy = await secondCopy()
  class Foreign extends copy.GroupGrader {
    async gradeGroup(): Promise<void> {}
  }
  expect(Foreign.prototype).not.toBeInstanceOf(GroupGrader)
  expect(discoverEntrypoint({ Search, Foreign }).grader).toBe(Foreign)
})
