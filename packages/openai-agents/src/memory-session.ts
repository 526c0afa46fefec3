import { randomUUID } from 'node:crypto'

import { type AgentInputItem, MemorySession } from '@openai/agents'
import {
  assertHeaderSafeId,
  getRolloutContext,
  type RolloutContext,
  toRolloutSample,
} from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'

import { sessionTouched } from './run-scope.ts'
import { prepareSdk } from './sdk-interventions.ts'
import { registerSession, SessionRecord, sessionRecordKey, sessionsOf } from './session-record.ts'

/** Options of {@link OsmosisMemorySession}: those of `MemorySession`, and the name of the sample. */
export interface OsmosisMemorySessionOptions extends NonNullable<
  ConstructorParameters<typeof MemorySession>[0]
> {
  /**
   * The sample id: 1 to 256 printable ASCII characters, unique in its rollout. Default: `sessionId`, else a
   * random one.
   */
  readonly name?: string
}

/**
 * A `MemorySession` that is a sample of the rollout it is made in: runs it is passed to call the
 * policy under its name, and the items it holds in the end are the sample's `messages`, in the
 * SDK's own form. Instructions are not among them. Runs that fail, are aborted or run out of turns
 * are part of the sample too, although the SDK does not store them. A session made again with the `sessionId` of an
 * earlier one of the rollout, as programs do that restore it from its items, continues the sample.
 *
 * Made outside of a rollout it is a plain in-memory session, of no use inside one.
 */
export class OsmosisMemorySession extends MemorySession {
  /** The sample id. */
  readonly name: string
  /** For this package only. */
  readonly [sessionRecordKey]: unknown
  readonly #record: SessionRecord

  /** @throws OsmosisError with code `invalid_id` or `duplicate_sample` */
  constructor(options: OsmosisMemorySessionOptions = {}) {
    const { sessionId, name = sessionId ?? randomUUID().replaceAll('-', ''), ...others } = options
    assertHeaderSafeId('sample', name)
    super({ ...others, sessionId: sessionId ?? name })
    this.name = name
    const context = getRolloutContext()
    const earlier = sessionId === undefined ? undefined : earlierSession(context, name, sessionId)
    const record = earlier ?? new SessionRecord({ name, sessionId, context })
    record.items = () => super.getItems()
    this[sessionRecordKey] = record
    this.#record = record
    if (context === undefined || earlier !== undefined) return
    prepareSdk()
    context.registerSampleSource(name, {
      requiresModelCall: true,
      unnoticedError: () => record.unansweredApproval(),
      getSample: async (id) =>
        toRolloutSample({ id, messages: record.unfinished ?? (await record.items()) }),
    })
    registerSession(context, record)
  }

  /** @throws OsmosisError with code `wrong_rollout_context` inside another rollout than its own */
  override async getItems(limit?: number): Promise<AgentInputItem[]> {
    this.#touch()
    return super.getItems(limit)
  }

  /** @throws OsmosisError with code `wrong_rollout_context` inside another rollout than its own */
  override async addItems(items: AgentInputItem[]): Promise<void> {
    this.#touch()
    return super.addItems(items)
  }

  /** @throws OsmosisError with code `wrong_rollout_context` inside another rollout than its own */
  override async popItem(): Promise<AgentInputItem | undefined> {
    this.#touch()
    return super.popItem()
  }

  /** @throws OsmosisError with code `wrong_rollout_context` inside another rollout than its own */
  override async clearSession(): Promise<void> {
    this.#touch()
    this.#record.noteCleared()
    return super.clearSession()
  }

  /** @throws OsmosisError with code `wrong_rollout_context` inside another rollout than its own */
  override async applyHistoryMutations(
    ...args: Parameters<MemorySession['applyHistoryMutations']>
  ): Promise<void> {
    this.#touch()
    return super.applyHistoryMutations(...args)
  }

  /** @throws OsmosisError with code `wrong_rollout_context` inside another rollout than its own */
  override async applyHistoryTransaction(
    ...args: Parameters<MemorySession['applyHistoryTransaction']>
  ): Promise<void> {
    this.#touch()
    return super.applyHistoryTransaction(...args)
  }

  #touch(): void {
    const record = this.#record
    record.assertBelongsTo(getRolloutContext())
    if (record.context) sessionTouched(record)
  }
}

function earlierSession(
  context: RolloutContext | undefined,
  name: string,
  sessionId: string,
): SessionRecord | undefined {
  // A run that is still talking would mix with that of the other session.
  if (context === undefined || recordOf(context).busyIds.includes(name)) return undefined
  return sessionsOf(context).find(
    (record) => record.name === name && record.sessionId === sessionId,
  )
}
