import { styleText } from 'node:util'

const levels: Readonly<Record<number, readonly [string, Parameters<typeof styleText>[0]]>> = {
  20: ['DEBUG', 'gray'],
  30: ['INFO', 'green'],
  40: ['WARN', 'yellow'],
  50: ['ERROR', 'red'],
}

/**
 * A line of the log for people: time, importance, the rollout, what happened, then the other fields. The
 * stack of an error follows, indented. Coloured for a terminal, unless `NO_COLOR` is set.
 *
 * @param json - the line as it is written for programs; what is none stays as it is
 */
export function prettyLine(json: string): string {
  const fields = fieldsOf(json)
  if (fields === undefined) return json
  const { level, time, msg, rollout_id: rolloutId, error, ...others } = fields
  const [name, colour] = levels[Number(level)] ?? ['INFO', 'green']
  const rollout = rolloutId === undefined ? [] : [styled('cyan', oneLine(rolloutId))]
  const rest = Object.entries(others).map(([key, value]) =>
    styled('gray', `${key}=${oneLine(value)}`),
  )
  const parts = [clock(time), styled(colour, name.padEnd(5)), ...rollout, oneLine(msg), ...rest]
  return `${parts.join(' ')}\n${error === undefined ? '' : errorLines(error)}`
}

function fieldsOf(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** Time of day, in the zone of the process. */
function clock(time: unknown): string {
  const date = new Date(Number(time))
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000)
  return styled('gray', Number.isNaN(local.getTime()) ? '' : local.toISOString().slice(11, 23))
}

/** Text of others cannot begin a line of its own, or move the cursor. */
function oneLine(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001F\u007F-\u009F]/g, (character) =>
    character === '\n' ? '⏎' : '�',
  )
}

function errorLines(error: unknown): string {
  const { stack, message, cause } = Object(error) as Record<string, unknown>
  const text = typeof stack === 'string' ? stack : typeof message === 'string' ? message : error
  const lines = (typeof text === 'string' ? text : (JSON.stringify(text) ?? '')).split('\n')
  const own = lines.map((line) => `    ${styled('gray', oneLine(line))}\n`).join('')
  return cause === undefined
    ? own
    : `${own}    ${styled('gray', 'caused by')}\n${errorLines(cause)}`
}

function styled(format: Parameters<typeof styleText>[0], text: string): string {
  return styleText(format, text, { stream: process.stderr })
}
