import { RolloutMemory } from '../http/rollout-memory.ts'
import type { RolloutGroup } from '@osmosis/core'
import { groupSettings } from '@osmosis/core/workflow'
import type { GradingOutcome, RolloutFailure } from './execution-backend.ts'
import { GatheringGroup, notGraded } from './gathering-group.ts'
import { assertSamples, nothingToGradeAgainst } from './grading-phase.ts'
import { gradeGroup, type GroupGrading } from './group-grading.ts'
import type { LiveRollout } from './live-rollout.ts'
import { toFailure, type WorkflowResult } from './workflow-phase.ts'

/** For how long attempts that come too late are told so. Milliseconds. */
const rememberedMs = 60 * 60_000

/** The groups of a backend: each is gathered, graded once, and forgotten but for its id. */
export class RolloutGroups<TConfig, TWorkflowConfig> {
  readonly #gathering = new Map<string, GatheringGroup>()
  /** Why nobody can join a group any more, by its id. */
  readonly #over = new RolloutMemory<string>({ maxAgeMs: rememberedMs })
  readonly #grading: GroupGrading<TConfig, TWorkflowConfig>
  readonly #waitSeconds: number

  constructor(parts: Omit<GroupGrading<TConfig, TWorkflowConfig>, 'minSize'>) {
    const { waitSeconds, minSize } = groupSettings(parts.config)
    this.#grading = { ...parts, minSize }
    this.#waitSeconds = waitSeconds
  }

  /**
   * A rollout is about to run: its group waits for it.
   *
   * @throws OsmosisError with code `not_graded` when its group is over: whatever it said would be for nothing
   */
  begin(live: LiveRollout): void {
    const { group, grade } = live.request
    if (!grade || problemOf(group) !== undefined) return
    const { id, size = 0 } = group ?? { id: '' }
    const reason = this.#over.get(id)
    if (reason !== undefined) throw notGraded(reason)
    let gathering = this.#gathering.get(id)
    if (gathering === undefined) {
      gathering = new GatheringGroup({ id, size }, live.request, this.#waitSeconds, {
        gathered: (gathered) => {
          this.#end(id, `Group "${id}" was already graded when this attempt of it came.`)
          gradeGroup(gathered, this.#grading).catch(() => {})
        },
        over: (why) => this.#end(id, why),
      })
      this.#gathering.set(id, gathering)
    }
    gathering.begin(live)
  }

  /** A rollout has ended without samples that can be graded, and that has been reported. */
  failed(live: LiveRollout, failure: RolloutFailure): void {
    const { group } = live.request
    if (group) this.#gathering.get(group.id)?.fail(live, failure)
  }

  /** Waits until the group of a rollout has been graded. Never rejects. */
  async grade(live: LiveRollout, result: WorkflowResult): Promise<GradingOutcome> {
    const { samples } = result
    try {
      assertSamples(live, result)
      const { group, label, metadata } = live.request
      if (label === null && metadata === null) throw notGraded(nothingToGradeAgainst)
      const problem = problemOf(group)
      if (problem !== undefined) throw notGraded(problem)
      const { id, attempt } = group as RolloutGroup
      const gathering = this.#gathering.get(id)
      if (gathering === undefined) throw notGraded(this.#over.get(id) ?? `Group "${id}" is over.`)
      await gathering.arrive(live, attempt, samples)
      return { status: 'success', failure: null, samples }
    } catch (error) {
      const failure = toFailure(error, 'gradeGroup()')
      this.failed(live, failure)
      live.trace?.fail(error)
      return { status: 'failure', failure, samples }
    }
  }

  #end(id: string, why: string): void {
    this.#gathering.delete(id)
    this.#over.end(id, why)
  }
}

/** Why a rollout cannot be graded with others; undefined when it can. */
function problemOf(group: RolloutGroup | undefined): string | undefined {
  if (group?.size === undefined) {
    const lacks = group === undefined ? 'a group' : 'the size of its group'
    return `The grader judges all attempts at a row together, and this rollout came without ${lacks}. ${whoGivesGroups}`
  }
  const { id, attempt, size } = group
  if (attempt >= 1 && attempt <= size) return undefined
  return `This is attempt ${attempt} of group "${id}", which has ${size}.`
}

const whoGivesGroups =
  'Groups come from evaluations (osmosis eval run --n), osmosis worker --trinity, osmosis serve --run with --group-column and --group-size, and controllers that send "group". For others, use a Grader.'
