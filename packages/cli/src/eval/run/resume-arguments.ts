import type { EvalRunFlags } from '../run.ts'

/** Flags of one start, and those that only say how it prints or asks. */
const notRepeated: ReadonlySet<string> = new Set<keyof EvalRunFlags>([
  'module',
  'dataset',
  'name',
  'fresh',
  'retryFailed',
  'breakLock',
  'dryRun',
  'details',
  'quiet',
  'json',
  'yes',
])

/** The words behind `osmosis` that continue with a run which a command with these flags has started. */
export function resumeArguments(
  configFile: string | undefined,
  flags: EvalRunFlags,
  name: string,
): string[] {
  const { module, dataset } = flags
  const what = [
    ...(configFile === undefined ? [] : [configFile]),
    ...(module === undefined ? [] : ['-m', module]),
    ...(dataset === undefined ? [] : ['-d', dataset]),
  ]
  const repeated = Object.entries(flags).flatMap(([flag, value]) =>
    notRepeated.has(flag) ? [] : flagWords(flag, value),
  )
  return ['eval', 'run', ...what, ...repeated, '--name', name]
}

function flagWords(flag: string, value: unknown): string[] {
  const option = flag.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  // There is no --preflight and no --grader: they are what happens without the flag.
  if (value === true) return ['preflight', 'grader'].includes(flag) ? [] : [`--${option}`]
  if (value === false) return [`--no-${option}`]
  if (Array.isArray(value)) return value.flatMap((one) => flagWords(flag, one))
  const text = String(value)
  return [`--${option}`, /url$|^redis$/i.test(flag) ? withoutCredentials(text) : text]
}

/** Manifests are shown, and copied along with results. */
function withoutCredentials(address: string): string {
  const url = new URL(address)
  if (url.username === '' && url.password === '') return address
  url.username = url.password = ''
  return url.href
}
