import type { EvaluationSnapshot } from './evaluation-result.ts'
import type { ItemRecord } from './item-record.ts'

/** Where the records of an evaluation go. What it throws ends the evaluation. */
export interface EvaluationSink {
  /** Where the results can be found, for people. */
  readonly location: string
  /**
   * Takes the end of an item; awaited before the item counts as done. Calls overlap. `snapshot`
   * says how the evaluation stands, this record included; it costs time in proportion to the
   * records.
   */
  record(record: ItemRecord, snapshot: () => EvaluationSnapshot): Promise<void>
  /** Takes the final state. Called once, after the last `record` has settled. */
  finish(snapshot: EvaluationSnapshot): Promise<void>
}
