import type { PolicyCall } from '@osmosis/core'

/** What a sequence is made of. */
export type SequenceCall = Pick<
  PolicyCall,
  | 'promptTokenIds'
  | 'completionTokenIds'
  | 'logprobs'
  | 'error'
  | 'version'
  | 'trainable'
  | 'sampling'
> &
  Partial<Pick<PolicyCall, 'finishReason' | 'usage'>>

/** The tokens of one answer in a {@link TrainingSequence}. */
export interface AnswerSpan {
  /** Position of the call among those of its sample, from 0. */
  readonly call: number
  /** Position of the first token of the answer. */
  readonly start: number
  /** Position behind the last one. */
  readonly end: number
  /** Version of the policy that gave the answer; null when unknown. */
  readonly version: string | null
  /** Whether it reached its limit of tokens. Missing: no, or unknown. */
  readonly isCut?: true
  /**
   * Fields of the request that hold the answer to a form, such as `tool_choice`. Where the server masks tokens for them, the
   * logprobs are those of the masked distribution and not the policy's. Missing: none.
   */
  readonly constraints?: readonly string[]
}

/** A conversation as the policy saw it: token ids, of which the policy sampled those in `answers`. */
export interface TrainingSequence {
  readonly ids: readonly number[]
  /** For each id; 0 for those that were not sampled. */
  readonly logprobs: readonly number[]
  /** In order, without overlaps. */
  readonly answers: readonly AnswerSpan[]
  /**
   * At which all answers were sampled. Null where their requests named none: the server's own default, which is no fact of this
   * record. A trainer takes what its server was started with then: 1 for vLLM only with `--generation-config vllm`.
   */
  readonly temperature: number | null
}

/** The sequences of a sample, and what they leave out. */
export interface SampleSequences {
  readonly sequences: readonly TrainingSequence[]
  /** Answers without all of their token ids or logprobs: they cannot be trained. */
  readonly withoutIds: number
  /** Answers to calls that are not training data. */
  readonly untrainable: number
}

interface OpenSequence {
  readonly ids: number[]
  readonly logprobs: number[]
  readonly answers: AnswerSpan[]
  readonly temperature: number | null
}

/**
 * Joins the calls of a sample to as few sequences as possible: a call continues the longest sequence that its
 * prompt starts with. A conversation whose history was rewritten or compacted, a sub-agent, or a template
 * that drops earlier thinking starts another sequence, so that each token is trained in the context in
 * which it was sampled, and once. So does another temperature, and one that is unknown differs from all that are known.
 */
export function toTrainingSequences(calls: readonly SequenceCall[]): SampleSequences {
  const open: OpenSequence[] = []
  let withoutIds = 0
  let untrainable = 0
  for (const [index, call] of calls.entries()) {
    if (call.error !== null) continue
    if (!call.trainable) {
      untrainable += 1
      continue
    }
    const prompt = call.promptTokenIds
    const answer = call.completionTokenIds
    const logprobs = missingOf(call) === undefined ? sampledLogprobs(call) : null
    if (prompt === null || answer === null || logprobs === null) {
      withoutIds += 1
      continue
    }
    const temperature = temperatureOf(call)
    let sequence = longestPrefix(open, prompt, temperature)
    if (sequence === undefined) {
      sequence = { ids: [], logprobs: [], answers: [], temperature }
      open.push(sequence)
    }
    const { ids } = sequence
    for (let at = ids.length; at < prompt.length; at += 1) ids.push(prompt[at] ?? 0)
    const start = ids.length
    for (const id of answer) ids.push(id)
    while (sequence.logprobs.length < start) sequence.logprobs.push(0)
    for (const logprob of logprobs) sequence.logprobs.push(logprob)
    sequence.answers.push({
      call: index,
      start,
      end: ids.length,
      version: call.version,
      ...(call.finishReason === 'length' ? { isCut: true } : {}),
      ...constraintsOf(call),
    })
  }
  return { sequences: open, withoutIds, untrainable }
}

/** The logprob of each sampled token; null unless there is one for each token of the answer. */
export function sampledLogprobs(
  call: Pick<SequenceCall, 'logprobs' | 'completionTokenIds'>,
): number[] | null {
  const entries = call.logprobs?.content
  if (!Array.isArray(entries) || entries.length !== call.completionTokenIds?.length) return null
  const numbers = entries.map((entry) => (entry as { logprob?: unknown } | null)?.logprob)
  return numbers.every(Number.isFinite) ? (numbers as number[]) : null
}

/** What says whether an answer can be trained. */
type AnswerTokens = Pick<
  SequenceCall,
  'promptTokenIds' | 'completionTokenIds' | 'logprobs' | 'usage'
>

/** Why an answer cannot be trained; undefined when it has its token ids, and a logprob for each of its tokens. */
export function missingOf(call: AnswerTokens): string | undefined {
  const { promptTokenIds, completionTokenIds: ids } = call
  if (promptTokenIds === null || ids === null) return 'the policy gave no token ids'
  const wrong = wrongIdsOf(call)
  if (wrong !== undefined) return wrong
  if (sampledLogprobs(call) !== null) return undefined
  const entries = call.logprobs?.content
  if (!Array.isArray(entries)) return 'the policy gave no logprobs'
  return entries.length === ids.length
    ? 'the policy gave logprobs that are no finite numbers'
    : `the policy gave ${entries.length} logprobs for ${ids.length} tokens`
}

/**
 * Why the token ids that came with an answer are not those of the whole answer: the parsers of servers swallow some, or
 * send them twice. Undefined when they are, or when none came.
 */
export function wrongIdsOf({
  promptTokenIds,
  completionTokenIds: ids,
  usage,
}: Pick<AnswerTokens, 'promptTokenIds' | 'completionTokenIds'> & {
  readonly usage?: { readonly completion_tokens?: unknown } | null | undefined
}): string | undefined {
  if (promptTokenIds?.every(isId) === false || ids?.every(isId) === false) {
    return 'the policy gave token ids that are no whole numbers'
  }
  // Samples of the user's own sources may have calls without them.
  if (!Array.isArray(ids)) return undefined
  if (promptTokenIds?.length === 0) return 'the policy gave no token ids of the prompt'
  const counted = usage?.completion_tokens
  if (typeof counted !== 'number' || counted <= 0) return undefined
  // The token that ends an answer may be counted and not listed.
  if (ids.length === counted || ids.length === counted - 1) return undefined
  return `the policy gave ${ids.length} token ids, and counts ${counted} tokens`
}

function isId(id: number): boolean {
  return Number.isSafeInteger(id) && id >= 0
}

function constraintsOf({ sampling }: SequenceCall): Pick<AnswerSpan, 'constraints'> {
  const { constraints } = sampling
  return Array.isArray(constraints) ? { constraints: constraints.map(String) } : {}
}

/** The server decides what a request leaves out: vLLM by `generation_config.json` of the model's folder. */
function temperatureOf({ sampling }: SequenceCall): number | null {
  const temperature = sampling['temperature']
  return typeof temperature === 'number' ? temperature : null
}

function longestPrefix(
  open: readonly OpenSequence[],
  prompt: readonly number[],
  temperature: number | null,
): OpenSequence | undefined {
  let longest: OpenSequence | undefined
  for (const sequence of open) {
    const { ids } = sequence
    if (ids.length > prompt.length || ids.length <= (longest?.ids.length ?? 0)) continue
    if (sequence.temperature === temperature && ids.every((id, at) => id === prompt[at])) {
      longest = sequence
    }
  }
  return longest
}
