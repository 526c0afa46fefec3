import type { AgentWorkflowContext, RolloutGroup, MetadataOf, PromptMessage } from '@osmosis/core'
import type { ArtifactsFolder } from './artifacts-folder.ts'
import type { LiveRollout } from './live-rollout.ts'

const artifacts = Symbol('artifacts')

/** Makes the folder when it is first asked for. */
const artifactsDir = {
  enumerable: true,
  get(this: { readonly [artifacts]: ArtifactsFolder }) {
    return this[artifacts].path
  },
}

/** What the workflow of a rollout gets to work on: an object of its own, which it may copy. */
export class WorkflowInput<TConfig> implements AgentWorkflowContext<TConfig> {
  readonly prompt: PromptMessage[]
  readonly config: TConfig
  readonly metadata: MetadataOf<TConfig>
  readonly rolloutId: string
  readonly group: RolloutGroup | null
  readonly signal: AbortSignal
  declare readonly artifactsDir: string | null
  declare readonly [artifacts]: ArtifactsFolder

  constructor(live: LiveRollout, config: TConfig, signal: AbortSignal) {
    const { rolloutId, initialMessages, group } = live.request
    this.prompt = [...initialMessages]
    this.config = config
    this.metadata = live.metadata as MetadataOf<TConfig>
    this.rolloutId = rolloutId
    this.group = group ?? null
    this.signal = signal
    // A property of the object, so that copies have it, with one getter for all: an object literal with a
    // getter takes several times as much memory, for as long as the workflow runs.
    Object.defineProperties(this, { [artifacts]: { value: live.artifacts }, artifactsDir })
  }
}
