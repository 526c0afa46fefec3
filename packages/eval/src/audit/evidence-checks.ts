import { lastAnswer, osmosisFields, stepText, type AuditedPass } from './audited-pass.ts'

/** Why nothing shows that a reward was earned; undefined otherwise. */
export function missingEvidence({ event, stored, conversations }: AuditedPass): string | undefined {
  if (stored === 'damaged') return 'its transcript is damaged'
  if (stored === 'missing') return 'it has no transcript'
  if (event.calls === 0) return 'it never called the policy'
  for (const [id, conversation] of conversations) {
    const last = lastAnswer(conversation)
    const of = conversations.length > 1 ? ` of ${id}` : ''
    if (last === undefined) return `an answer${of} is missing`
    if (last.metrics?.extra?.['finish_reason'] === 'length') {
      return `the last answer${of} is cut off at the token limit`
    }
    if (stepText(last) === '' && !callsTools(last)) return `the last answer${of} is empty`
  }
  return undefined
}

/** The tool with whose call a conversation ends instead of an answer; undefined for none. */
export function endsWithCall({ conversations }: AuditedPass): string | undefined {
  for (const [, conversation] of conversations) {
    const last = lastAnswer(conversation)
    if (last !== undefined && stepText(last) === '' && callsTools(last)) {
      return last.tool_calls?.at(-1)?.function_name
    }
  }
  return undefined
}

function callsTools({ tool_calls: calls }: NonNullable<ReturnType<typeof lastAnswer>>): boolean {
  return (calls ?? []).length > 0
}

const errorName = /(?:^|_)(?:error|exception|traceback)s?$/i

/**
 * The error of its grader, although it passed: a failure that the rollout or its log has, an eval function without
 * a score, or what the grader itself stored as an error. Undefined for none.
 *
 * @param logged - the error of the rollout in the log of the run
 */
export function graderError(
  { event, conversations, graded }: AuditedPass,
  logged: string | undefined,
): string | undefined {
  if (event.status === 'failed') return `it failed: ${event.error_type}: ${event.error_message}`
  const documents = conversations.map(([, { extra }]) => osmosisFields(extra))
  for (const { failures } of documents) {
    for (const failure of Array.isArray(failures) ? failures : []) {
      const { phase, message } = failure as { phase?: unknown; message?: unknown }
      return `${String(phase)} failed: ${String(message)}`
    }
  }
  for (const [name, error] of Object.entries(event.score_errors ?? {})) {
    return `${name} gave no score: ${error}`
  }
  if (logged !== undefined) return `the log has an error: ${logged}`
  const stored = Object.values(graded?.samples ?? {}).flatMap((sample) => [
    ...Object.entries(sample.extra_fields),
    ...Object.entries(sample.metrics),
  ])
  const found = stored.find(([name, value]) => errorName.test(name) && Boolean(value))
  return found && `the sample has ${found[0]}: ${textOfValue(found[1])}`
}

function textOfValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
