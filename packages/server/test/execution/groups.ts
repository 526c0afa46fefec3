import {
  defineGraderConfig,
  getRolloutContext,
  GroupGrader,
  toRolloutSample,
  type GroupGraderContext,
  type GroupSettings,
} from '@osmosis/core'
import type { RolloutRequest } from '@osmosis/protocol'
import { LocalBackend } from '@osmosis/server/execution'

import { run, workflow, type ExecutedRollout } from '../../../../test/kit/executed-rollouts.ts'

/** A group grader that calls this function. */
export function groupGrader(
  body: (ctx: GroupGraderContext) => unknown,
): new (config: unknown) => GroupGrader {
  return class JudgesGroups extends GroupGrader {
    async gradeGroup(ctx: GroupGraderContext): Promise<void> {
      await body(ctx)
    }
  }
}

/** What the workflow of a rollout does before it ends; nothing by default. */
export type Acts = Readonly<Record<string, (signal: AbortSignal) => unknown>>

/** Runs members of groups; each gives one sample, `answer`, that names its rollout. */
export class GroupRuns {
  readonly backend: LocalBackend
  /** What the grader has seen. */
  readonly seen: GroupGraderContext[] = []

  constructor(
    group: GroupSettings = {},
    {
      acts = {},
      judge = rankMembers,
      slots,
    }: { acts?: Acts; judge?: (ctx: GroupGraderContext) => unknown; slots?: number } = {},
  ) {
    const { seen } = this
    this.backend = new LocalBackend({
      workflow: workflow(async ({ rolloutId, signal }) => {
        await acts[rolloutId]?.(signal)
        getRolloutContext()?.registerSampleSource('answer', {
          getSample: (id) =>
            toRolloutSample({ id, messages: [{ role: 'assistant', content: rolloutId }] }),
        })
      }),
      grader: groupGrader(async (ctx) => {
        seen.push(ctx)
        await judge(ctx)
      }),
      graderConfig: defineGraderConfig({
        name: 'groups',
        group,
        ...(slots === undefined ? {} : { concurrency: { maxConcurrent: slots } }),
      }),
      maxConcurrent: 1000,
    })
  }

  /** Runs `<group>-<attempt>`, with these overrides of its request. */
  async run(
    id: string,
    attempt: number,
    size: number,
    overrides: Partial<RolloutRequest> = {},
  ): Promise<ExecutedRollout> {
    const group = { id, attempt, size }
    return run(this.backend, { rolloutId: `${id}-${attempt}`, group, ...overrides })
  }
}

/** The reward of a member is the fraction that its attempt number is of the group's size. */
export function rankMembers({ members, group }: GroupGraderContext): void {
  for (const member of members) member.setReward(member.attempt / group.size)
}

/** The reward of a rollout, or the error of its grading. */
export function endOf({ completion, grading }: ExecutedRollout): unknown {
  const failure = completion.failure ?? grading?.failure
  return failure?.message ?? grading?.samples.get('answer')?.reward
}
