import type { AuditVerdict } from '../analysis/records/audit-finding.ts'
import { type ItemEvent, itemKey } from '../analysis/records/item-event.ts'

/**
 * The last verdict of each check on an item, without those on an earlier rollout of the item or on another reward or
 * score.
 *
 * @param verdicts - as `RunFolder.verdicts` returns them
 */
export function currentVerdicts(
  verdicts: readonly AuditVerdict[],
  event: ItemEvent,
): AuditVerdict[] {
  const own = verdicts.filter((verdict) => itemKey(verdict) === itemKey(event))
  const last = new Map(own.map((verdict) => [verdict.check, verdict]))
  const values = [event.reward, ...Object.values(event.scores ?? {})]
  return [...last.values()].filter(
    ({ rollout_id: id, value }) => id === event.rollout_id && values.includes(value),
  )
}
