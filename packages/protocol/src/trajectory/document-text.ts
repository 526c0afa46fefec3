import type { Trajectory, TrajectoryStep } from './atif.ts'

/**
 * The text of a document, of at most `maxBytes`, because conversations can have any size. What people and
 * trainers need least is left out first, and the document says what was left out.
 */
export function documentText(trajectory: Trajectory, maxBytes: number): string {
  let shown = trajectory
  const leftOut: string[] = []
  for (const cut of [undefined, ...cuts]) {
    if (cut) {
      shown = cut.apply(shown)
      leftOut.push(cut.what)
      shown = {
        ...shown,
        notes: `Left out, to stay below ${maxBytes} bytes: ${leftOut.join('; ')}.`,
      }
    }
    const text = textWithin(shown, maxBytes)
    if (text !== undefined) return text
  }
  throw new RangeError(`A trajectory document does not fit into ${maxBytes} bytes.`)
}

/**
 * JSON with an indent of 2, in which lists of nothing but numbers take one line.
 *
 * @param longest - maximum number of characters; the text is not built much beyond it
 * @throws RangeError when the text would be longer
 */
export function toText(value: unknown, longest = Number.POSITIVE_INFINITY): string {
  let left = longest
  const counted = (text: string): string => {
    left -= text.length
    if (left < 0) throw new RangeError(`The text is longer than ${longest} characters.`)
    return text
  }
  const textOf = (inner: unknown, indent: string): string => {
    if (typeof inner !== 'object' || inner === null) return counted(JSON.stringify(inner) ?? 'null')
    const deeper = `${indent}  `
    if (Array.isArray(inner)) {
      if (inner.every((item) => typeof item === 'number')) return counted(`[${inner.join(', ')}]`)
      const items = inner.map((item) => deeper + textOf(item, deeper))
      return `[\n${items.join(',\n')}\n${indent}]`
    }
    const fields = Object.entries(inner).filter(([, field]) => field !== undefined)
    if (fields.length === 0) return '{}'
    const lines = fields.map(
      ([key, field]) => `${counted(`${deeper}${JSON.stringify(key)}: `)}${textOf(field, deeper)}`,
    )
    return `{\n${lines.join(',\n')}\n${indent}}`
  }
  return textOf(value, '')
}

function textWithin(trajectory: Trajectory, maxBytes: number): string | undefined {
  try {
    const text = toText(trajectory, maxBytes)
    return Buffer.byteLength(text) <= maxBytes ? text : undefined
  } catch (error) {
    // Longer than allowed, or than a string can be.
    if (error instanceof RangeError) return undefined
    throw error
  }
}

interface Cut {
  readonly what: string
  readonly apply: (trajectory: Trajectory) => Trajectory
}

/** Limits for the size of a conversation. */
interface Room {
  readonly steps: number
  /** Tool calls of a step. */
  readonly calls: number
  /** Characters. */
  readonly text: number
}

const cuts: readonly Cut[] = [
  {
    what: 'token ids of prompts',
    apply: (trajectory) =>
      withSteps(trajectory, ({ metrics, ...step }) => ({
        ...step,
        ...(metrics ? { metrics: { ...metrics, prompt_token_ids: undefined } } : {}),
      })),
  },
  {
    what: 'token ids and logprobs of answers',
    apply: (trajectory) =>
      withSteps(trajectory, ({ metrics, ...step }) => ({
        ...step,
        ...(metrics
          ? { metrics: { ...metrics, completion_token_ids: undefined, logprobs: undefined } }
          : {}),
      })),
  },
  { what: 'fields of more than 65536 characters', apply: withoutLongFields },
  shortened({ steps: Number.POSITIVE_INFINITY, calls: 1000, text: 65_536 }),
  shortened({ steps: 2000, calls: 100, text: 4096 }),
  shortened({ steps: 200, calls: 20, text: 500 }),
  shortened({ steps: 20, calls: 5, text: 100 }),
]

function shortened({ steps: most, calls, text }: Room): Cut {
  const fewer = Number.isFinite(most) ? `all but ${most} steps, ` : ''
  return {
    what: `${fewer}texts beyond ${text} characters, all but ${calls} tool calls of a step`,
    apply(trajectory) {
      const { steps, agent } = trajectory
      // The start and the end matter more than the middle.
      const head = Math.min(Math.ceil(most / 4), steps.length)
      const shown =
        steps.length <= most ? steps : [...steps.slice(0, head), ...steps.slice(head - most)]
      const few = shown.map((step, index) => shortStep(step, index + 1, { calls, text }))
      const model = agent.model_name
      return {
        ...trajectory,
        agent: { ...agent, ...(model ? { model_name: short(model, text) } : {}) },
        steps: few,
      }
    },
  }
}

function shortStep(step: TrajectoryStep, id: number, room: Omit<Room, 'steps'>): TrajectoryStep {
  const { metrics, tool_calls: calls, observation, reasoning_content: reasoning } = step
  const cut = (text: string): string => short(text, room.text)
  const fewCalls = calls?.slice(0, room.calls).map((call) => ({
    tool_call_id: cut(call.tool_call_id),
    function_name: cut(call.function_name),
    arguments: shortArguments(call.arguments, room.text),
  }))
  const known = new Set(fewCalls?.map(({ tool_call_id: callId }) => callId))
  const results = observation?.results.slice(0, room.calls).map((result) => {
    const callId = result.source_call_id ? cut(result.source_call_id) : undefined
    return {
      ...(callId !== undefined && known.has(callId) ? { source_call_id: callId } : {}),
      content: cut(plainText(result.content)),
    }
  })
  return {
    step_id: id,
    ...(step.timestamp ? { timestamp: step.timestamp } : {}),
    source: step.source,
    ...(step.model_name ? { model_name: cut(step.model_name) } : {}),
    message: cut(plainText(step.message)),
    ...(reasoning ? { reasoning_content: cut(reasoning) } : {}),
    ...(fewCalls ? { tool_calls: fewCalls } : {}),
    ...(results ? { observation: { results } } : {}),
    ...(metrics ? { metrics: { ...metrics, extra: undefined } } : {}),
    ...(step.llm_call_count ? { llm_call_count: step.llm_call_count } : {}),
  }
}

function shortArguments(given: Record<string, unknown>, room: number): Record<string, unknown> {
  const json = JSON.stringify(given)
  return json.length <= room ? given : { _raw: short(json, room) }
}

function short(text: string, room: number): string {
  if (text.length <= room) return text
  // The cut may have left half of a character, which strict readers of JSON refuse.
  return `${text.slice(0, room).toWellFormed()}… [${text.length - room} characters left out]`
}

function plainText(content: TrajectoryStep['message'] | null | undefined): string {
  if (typeof content === 'string') return content
  const parts = content ?? []
  return parts.map((part) => (part.type === 'text' ? part.text : '[image]')).join('\n')
}

function withoutLongFields(trajectory: Trajectory): Trajectory {
  const { extra, final_metrics: sums } = trajectory
  const osmosis = Object.entries(extra?.['osmosis'] ?? {}).filter(
    ([, value]) => JSON.stringify(value).length <= 65_536,
  )
  return {
    ...trajectory,
    ...(sums ? { final_metrics: { ...sums, extra: undefined } } : {}),
    extra: { osmosis: Object.fromEntries(osmosis) },
  }
}

function withSteps(
  trajectory: Trajectory,
  change: (step: TrajectoryStep) => TrajectoryStep,
): Trajectory {
  return { ...trajectory, steps: trajectory.steps.map(change) }
}
