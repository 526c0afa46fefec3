import {
  AgentLoopValidationError,
  createApp,
  formatIssue,
  isRolloutAgentLoop,
  isRolloutAgentLoopClass,
  RolloutAgentLoop,
  validateAgentLoop,
  type RolloutContext,
  type RolloutRequest,
  type RolloutResult,
  type ToolInput,
} from '@osmosis/agent-loop'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { answerOnce, loopOf } from './running-app.ts'

const mustBeASchema =
  "'parameters' must be a JSON Schema, or a schema whose library can convert it to one (zod can since 4.2)"
const good = { name: 'f', description: 'does f', parameters: { type: 'object' } }

async function issuesOf(tools: unknown): Promise<string[]> {
  const { errors, warnings } = await validateAgentLoop(loopOf(answerOnce, () => tools))
  return [...errors, ...warnings].map(formatIssue)
}

describe('validating an agent loop', () => {
  it('reports nothing for a valid one', async () => {
    const requests: RolloutRequest[] = []
    const loop = loopOf(answerOnce, async (request) => {
      requests.push(request)
      return [{ type: 'function', function: good }]
    })
    expect(await validateAgentLoop(loop)).toStrictEqual({
      valid: true,
      name: 'test-loop',
      toolCount: 1,
      errors: [],
      warnings: [],
    })
    expect(requests[0]).toMatchObject({ rolloutId: 'validation-test-rollout' })
  })

  it.each<[unknown, string[]]>([
    [
      undefined,
      ['[GET_TOOLS_RETURNS_NONE] getTools: getTools() must return an array, got undefined'],
    ],
    [{}, ['[GET_TOOLS_INVALID_TYPE] getTools: getTools() must return an array, got object']],
    [['f'], ['[INVALID_TOOL_TYPE] tools[0]: Tool must be an object, got string']],
    [[{ function: good }], ["[MISSING_TOOL_TYPE] tools[0]: Tool must have a 'type' field"]],
    [
      [{ type: 'web', function: good }],
      [
        "[UNKNOWN_TOOL_TYPE] tools[0].type: Tool type 'web' may not be supported, expected 'function'",
      ],
    ],
    [
      [{ type: 5, function: good }],
      ['[INVALID_TOOL_TYPE] tools[0].type: Tool type must be a string'],
    ],
    [[{ type: 'function' }], ["[MISSING_FUNCTION] tools[0]: Tool must have a 'function' field"]],
    [
      [{ type: 'function', function: 'f' }],
      ["[INVALID_FUNCTION_TYPE] tools[0].function: 'function' must be an object"],
    ],
    [
      [{ type: 'function', function: { ...good, name: undefined } }],
      ["[MISSING_FUNCTION_NAME] tools[0].function.name: Function must have a 'name' field"],
    ],
    [
      [{ type: 'function', function: { ...good, name: ' ' } }],
      ['[INVALID_FUNCTION_NAME] tools[0].function.name: Function name must be a non-empty string'],
    ],
    [
      [{ type: 'function', function: { ...good, name: 5 } }],
      ['[INVALID_FUNCTION_NAME] tools[0].function.name: Function name must be a non-empty string'],
    ],
    [
      [{ type: 'function', function: { ...good, description: undefined } }],
      [
        "[MISSING_FUNCTION_DESCRIPTION] tools[0].function.description: Function should have a 'description' for better LLM understanding",
      ],
    ],
    [
      [{ type: 'function', function: { ...good, description: 5 } }],
      [
        "[INVALID_FUNCTION_DESCRIPTION] tools[0].function.description: 'description' must be a string, got number",
      ],
    ],
    [
      [{ type: 'function', function: { ...good, parameters: [] } }],
      [`[INVALID_PARAMETERS_TYPE] tools[0].function.parameters: ${mustBeASchema}, got array`],
    ],
    [
      [{ type: 'function', function: { ...good, parameters: () => ({}) } }],
      [`[INVALID_PARAMETERS_TYPE] tools[0].function.parameters: ${mustBeASchema}, got function`],
    ],
    [
      [{ type: 'function', function: { ...good, parameters: { '~standard': { vendor: 'zod' } } } }],
      [
        `[INVALID_PARAMETERS_TYPE] tools[0].function.parameters: ${mustBeASchema}, got a schema that cannot be converted`,
      ],
    ],
    [
      [{ type: 'function', function: { ...good, parameters: { type: 'array' } } }],
      [
        "[PARAMETERS_TYPE_NOT_OBJECT] tools[0].function.parameters.type: 'parameters.type' should be 'object'",
      ],
    ],
    [
      [{ type: 'function', function: { ...good, parameters: { default: 1n } } }],
      [
        '[TOOL_NOT_JSON] tools[0]: Tool cannot be written as JSON: Do not know how to serialize a BigInt',
      ],
    ],
  ])('finds in the tools %o: %j', async (tools, issues) => {
    expect(await issuesOf(tools)).toStrictEqual(issues)
  })

  it('accepts a loop without tools', async () => {
    expect(await validateAgentLoop(loopOf(answerOnce))).toMatchObject({
      valid: true,
      toolCount: 0,
      errors: [],
      warnings: [],
    })
  })

  it('reports tools that cannot be loaded', async () => {
    const loop = loopOf(answerOnce, () => {
      throw new RangeError('no')
    })
    expect((await validateAgentLoop(loop)).errors.map(formatIssue)).toStrictEqual([
      expect.stringMatching(
        /^\[GET_TOOLS_EXCEPTION\] getTools: getTools\(\) threw RangeError at \S+:\d+: no$/,
      ),
    ])
  })

  it('waits for tools as long as the server does', async () => {
    vi.stubEnv('OSMOSIS_ROLLOUT_CLIENT_TIMEOUT_SECONDS', '1')
    onTestFinished(() => void vi.unstubAllEnvs())
    const loop = loopOf(answerOnce, () => new Promise(() => {}))
    expect((await validateAgentLoop(loop)).errors.map(formatIssue)).toStrictEqual([
      '[GET_TOOLS_TIMEOUT] getTools: getTools() did not return within the 1 s that trainers wait (client.timeoutSeconds)',
    ])
  })

  it('reports a missing name and a missing run, and no app is created', async () => {
    class Nameless extends RolloutAgentLoop {
      readonly name: string
      override run = undefined as never
      constructor(name: unknown) {
        super()
        this.name = name as string
      }
      getTools(): ToolInput[] {
        return []
      }
    }
    const found = async (name: unknown): Promise<string[]> =>
      (await validateAgentLoop(new Nameless(name))).errors.map(formatIssue)
    const run = "[MISSING_RUN_METHOD] run: Agent loop must implement 'run' method"
    expect(await found(undefined)).toStrictEqual([
      "[MISSING_NAME] name: Agent loop class Nameless must define a 'name'",
      run,
    ])
    expect(await found(5)).toStrictEqual([
      "[INVALID_NAME_TYPE] name: 'name' must be a string, got number",
      run,
    ])
    expect(await found(' ')).toStrictEqual([
      "[EMPTY_NAME] name: Agent loop class Nameless has a 'name' that is empty or only whitespace",
      run,
    ])
    expect(() => createApp(new Nameless(''))).toThrow(AgentLoopValidationError)
    expect(() => createApp(new Nameless(''))).toThrow(
      expect.objectContaining({
        code: 'invalid_entrypoint',
        message: expect.stringMatching(/^Agent loop validation failed with 2 error\(s\):\n/),
      }) as Error,
    )
  })
})

it('reports a run that is not a method', async () => {
  const loop = Object.assign(loopOf(answerOnce), { run: 5 }) as never
  expect((await validateAgentLoop(loop)).errors.map(formatIssue)).toStrictEqual([
    "[RUN_NOT_CALLABLE] run: 'run' must be a method",
  ])
})

it('formats an issue with its field if it has one', () => {
  const issue = { severity: 'error', code: 'BAD', field: 'name', message: 'no' } as const
  expect([formatIssue(issue), formatIssue({ ...issue, field: '' })]).toStrictEqual([
    '[BAD] name: no',
    '[BAD] no',
  ])
})

it('distinguishes agent loops and their classes from other values', () => {
  const loop = loopOf(answerOnce)
  expect([loop, loop.constructor, {}, null].map(isRolloutAgentLoop)).toStrictEqual([
    true,
    false,
    false,
    false,
  ])
  expect(
    [loop, loop.constructor, RolloutAgentLoop, Map].map(isRolloutAgentLoopClass),
  ).toStrictEqual([false, true, false, false])
})

it('recognises agent loops and their classes of another installed copy of this package', async () => {
  vi.resetModules()
  const copy = await import('@osmosis/agent-loop')
  class TheirLoop extends copy.RolloutAgentLoop {
    readonly name = 'theirs'
    getTools = (): [] => []
    async run(ctx: RolloutContext): Promise<RolloutResult> {
      return ctx.complete([])
    }
  }
  expect(copy.RolloutAgentLoop).not.toBe(RolloutAgentLoop)
  expect([isRolloutAgentLoop(new TheirLoop()), isRolloutAgentLoopClass(TheirLoop)]).toStrictEqual([
    true,
    true,
  ])
})
