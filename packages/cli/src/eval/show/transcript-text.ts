import {
  formatCount,
  formatQuantity,
  answeredCalls,
  callNotes,
  callsBeside,
  isRewritten,
  isToolError,
  otherConversationsOf,
  runOutputOf,
  samplingText,
  seamText,
  shownContent,
} from '@osmosis/eval/analysis'
import type { Trajectory, TrajectoryStep } from '@osmosis/protocol/trajectory'

import { columnsOf, packed, plain, styled, wrapped } from '../../command/terminal-text.ts'

/** Options of a transcript. */
export interface TranscriptOptions {
  readonly width: number
  /** Whether to print long texts whole. */
  readonly full: boolean
}

/** Number of lines that remain of a truncated text. */
const systemLines = 4
const resultLines = 12

const margin = '  '

/** Lines of a conversation, step by step, then what `run()` returned, and the model calls and conversations beside it. */
export function transcriptLines(trajectory: Trajectory, options: TranscriptOptions): string[] {
  const steps = trajectory.steps.flatMap((step, at) => [
    ...(at === 0 ? [] : ['']),
    ...stepLines(step, options),
  ])
  const output = runOutputOf(trajectory)
  const outputLines =
    output === undefined
      ? []
      : ['', styled(['bold', 'green'], 'Output of run()'), ...block(output.whole, options)]
  const beside = callsBeside(trajectory).map((notes) => `Another model call: ${notes.join(', ')}`)
  const others = otherConversationsOf(trajectory)
  if (beside.length + others.length === 0) return [...steps, ...outputLines]
  if (others.length > 0 && !options.full) {
    beside.push(`${formatQuantity(others.length, 'other conversation')} of the sample (--full)`)
  }
  const lines = beside.flatMap((text) => wrapped(plain(text), options.width))
  return [
    ...steps,
    ...outputLines,
    '',
    ...lines.map((line) => styled('dim', line)),
    ...(options.full ? others.flatMap((messages) => otherLines(messages, options)) : []),
  ]
}

/** Lines of a conversation that is in no step. */
function otherLines(
  messages: readonly Readonly<Record<string, unknown>>[],
  options: TranscriptOptions,
): string[] {
  const said = messages.flatMap(({ role, content, tool_calls: calls }) => [
    styled('bold', plain(typeof role === 'string' ? role : 'message')),
    ...block(shownContent(content).text, options).filter((line) => line !== ''),
    ...(Array.isArray(calls) ? calls : []).flatMap((call: unknown) =>
      block(`→ ${JSON.stringify((call as { function?: unknown } | null)?.function)}`, options),
    ),
  ])
  return ['', styled('dim', '— another conversation of the sample —'), ...said]
}

/** Lines of one step, as plain text where its parts are not those of a step. */
function stepLines(step: TrajectoryStep, options: TranscriptOptions): string[] {
  try {
    return drawnLines(step, options)
  } catch {
    return folded(block(JSON.stringify(step, null, 2), options), resultLines, options)
  }
}

function drawnLines(step: TrajectoryStep, options: TranscriptOptions): string[] {
  const { source, reasoning_content: reasoning } = step
  const message = shownContent(step.message).text
  const seam = seamText(step)
  return [
    ...(seam === undefined
      ? []
      : wrapped(`— ${seam} —`, options.width).map((line) => styled('dim', line))),
    ...headLines(step, options),
    ...(reasoning ? block(reasoning, options).map((line) => styled('dim', line)) : []),
    ...(message === ''
      ? []
      : folded(block(message, options), source === 'system' ? systemLines : Infinity, options)),
    ...callLines(step, options),
  ]
}

function fromMessage(index: unknown): string {
  return typeof index === 'number' ? ` from message ${index + 1} of the request on` : ''
}

function headLines(step: TrajectoryStep, { full, width }: TranscriptOptions): string[] {
  const { source, step_id: id, metrics, extra } = step
  const name = { system: 'System', user: 'User', agent: 'Agent' }[source]
  const role = typeof extra?.['original_role'] === 'string' ? plain(extra['original_role']) : ''
  const color = ({ system: 'magenta', user: 'blue', agent: 'green' } as const)[source]
  const who = `${name}${role === '' ? '' : ` (${role})`}`
  const {
    latency_ms: latency,
    finish_reason: reason,
    history_rewritten_at: rewrittenAt,
  } = metrics?.extra ?? {}
  const { prompt_tokens: read, completion_tokens: written } = metrics ?? {}
  const sampling = samplingText(metrics?.extra)
  const facts = [
    `step ${id}`,
    ...(typeof written === 'number'
      ? [
          `${formatQuantity(written, 'token')}${typeof read === 'number' ? ` after ${formatCount(read)}` : ''}`,
        ]
      : []),
    ...(typeof latency === 'number' ? [`${(latency / 1000).toFixed(1)} s`] : []),
    ...callNotes(metrics?.extra).map(plain),
    ...(full && sampling !== '' ? [plain(sampling)] : []),
  ]
  const isUsual = typeof reason !== 'string' || reason === 'stop' || reason === 'tool_calls'
  const warnings = [
    ...(isUsual ? [] : [reason === 'length' ? 'cut off (length)' : `ended with ${plain(reason)}`]),
    ...(isRewritten(metrics?.extra) ? [`history rewritten${fromMessage(rewrittenAt)}`] : []),
  ]
  const [first = '', ...more] = packed(facts, ', ', width - columnsOf(who) - 2)
  const lines = [
    `${styled(['bold', color], who)}  ${styled('dim', first)}`,
    ...more.map((line) => `${margin}${styled('dim', line)}`),
  ]
  for (const warning of warnings) {
    const last = lines.at(-1) ?? ''
    const joined = columnsOf(last) + 2 + columnsOf(warning)
    if (joined <= width) lines[lines.length - 1] = `${last}  ${styled('yellow', warning)}`
    else lines.push(...wrapped(warning, width - 2).map((line) => margin + styled('yellow', line)))
  }
  return lines
}

/** The tool calls of a step, each with its result, then results without a call. */
function callLines(step: TrajectoryStep, options: TranscriptOptions): string[] {
  const calls = answeredCalls(step)
  const answered = new Set(calls.map(({ result }) => result))
  const others = (step.observation?.results ?? []).filter((result) => !answered.has(result))
  return [
    ...calls.flatMap(({ call, result, failed }) => [
      ...argumentLines(call.function_name, call.arguments, options),
      ...(result === undefined
        ? [`${margin}${styled('yellow', 'no result')}`]
        : resultOf(shownContent(result.content).text, failed, options)),
    ]),
    ...others.flatMap((result) =>
      resultOf(shownContent(result.content).text, isToolError(result), options),
    ),
  ]
}

/** On one line if it fits, else at least one line per argument. */
function argumentLines(
  name: string,
  args: Readonly<Record<string, unknown>>,
  { width }: TranscriptOptions,
): string[] {
  const title = `${margin}${styled('cyan', '→')} ${styled('bold', plain(name))}`
  const parts = Object.entries(args).map(([key, value]) => [plain(key), value] as const)
  const line = parts
    .map(([key, value]) => `${key}: ${plain(JSON.stringify(value) ?? 'undefined')}`)
    .join(', ')
  const hasLines = parts.some(([, value]) => typeof value === 'string' && value.includes('\n'))
  if (!hasLines && margin.length + 4 + name.length + line.length <= Math.min(width, 120)) {
    return [`${title}(${line})`]
  }
  const indent = `${margin}    `
  return [title, ...parts.flatMap(([key, value]) => argumentBlock(key, value, indent, width))]
}

function argumentBlock(key: string, value: unknown, indent: string, width: number): string[] {
  const head = `${indent}${styled('dim', `${key}:`)}`
  const room = width - indent.length - 2
  const brief = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  const isBrief =
    !brief.includes('\n') && key.length + columnsOf(plain(brief)) <= Math.min(room, 120)
  if (isBrief) return [`${head} ${plain(brief)}`]
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')
  return [head, ...wrapped(text, room).map((line) => `${indent}  ${line}`)]
}

/** Errors are never truncated: they explain the next steps. */
function resultOf(text: string, failed: boolean, options: TranscriptOptions): string[] {
  const inner = block(text, { ...options, width: options.width - 2 })
  const lines = failed ? inner : folded(inner, resultLines, options)
  return lines.map((line, at) => {
    const mark = at === 0 ? styled(failed ? 'red' : 'cyan', '←') : ' '
    const shown = line.slice(margin.length)
    return `${margin}${mark} ${failed ? styled('red', shown) : shown}`
  })
}

function block(text: string, { width }: TranscriptOptions): string[] {
  return wrapped(text.trim(), width - margin.length).map((line) => `${margin}${line}`.trimEnd())
}

function folded(lines: readonly string[], most: number, { full }: TranscriptOptions): string[] {
  const more = lines.length - most
  // The notice about one more line would take as much space as that line.
  if (full || more <= 1) return [...lines]
  return [
    ...lines.slice(0, most),
    `${margin}${styled('dim', `… ${formatCount(more)} more lines (--full)`)}`,
  ]
}
