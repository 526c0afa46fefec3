import { OsmosisError } from '../errors.ts'
import type { ExecOptions, ExecResult, Sandbox } from '../sandbox/sandbox.ts'

export interface UnitTestOptions extends ExecOptions {
  /**
   * The JUnit report that the command writes, a path below the folder of the sandbox. With it the score is the share
   * of tests that passed.
   */
  readonly junit?: string
}

/**
 * Runs tests in a sandbox: 1 when the command ends with code 0, else 0; with `junit` the share of passed tests,
 * without those that were skipped, disabled or not run. It is 0 after the timeout, and without any test. Write the tests
 * into the sandbox right before, because the agent can change what is there.
 *
 * @throws OsmosisError with code `tool_failed` when the command cannot be started, or ends well without a report
 */
export async function unitTests(
  sandbox: Sandbox,
  command: string | readonly string[],
  { junit, ...options }: UnitTestOptions = {},
): Promise<number> {
  const isCleared = junit === undefined || (await cleared(sandbox, junit, options))
  const result = await sandbox.exec(command, options)
  if (result.exitCode === 126 || result.exitCode === 127) throw notRun(command, result)
  if (result.timedOut) return 0
  if (junit === undefined) return result.exitCode === 0 ? 1 : 0
  const report = isCleared ? await readReport(sandbox, junit, result) : ''
  if (report.trim() === '') {
    if (result.exitCode !== 0) return 0
    throw new OsmosisError(
      'tool_failed',
      `The tests ended with code 0 and wrote no report to ${junit}. Let the command write a JUnit report there.`,
    )
  }
  const share = shareOfPassed(report)
  return share === 1 && result.exitCode !== 0 ? 0 : share
}

/** Removes what is no folder on the way to "$0", and whatever is there. */
const removeObstacles = `at= rest=$0/
while [ -n "$rest" ]; do
  at=$at\${rest%%/*} rest=\${rest#*/}
  { [ -n "$rest" ] && [ -d "$at" ] && ! [ -L "$at" ]; } || rm -rf -- "$at"
  at=$at/
done`

/**
 * Empties the report: one that the agent left is none of this command. Resolves with false where the agent left what can
 * neither be written nor removed.
 */
async function cleared(sandbox: Sandbox, junit: string, { signal }: ExecOptions): Promise<boolean> {
  try {
    await sandbox.write(junit, '')
    return true
  } catch (error) {
    // Such a path may be outside of the sandbox, whatever the agent left.
    if (/^\/|(?:^|\/)\.\.(?:\/|$)/.test(junit)) throw error
  }
  await sandbox.exec(['/bin/sh', '-c', removeObstacles, junit], { signal })
  return sandbox.write(junit, '').then(
    () => true,
    () => false,
  )
}

async function readReport(
  sandbox: Sandbox,
  junit: string,
  { exitCode }: ExecResult,
): Promise<string> {
  try {
    return new TextDecoder().decode(await sandbox.read(junit))
  } catch (error) {
    if (exitCode === 0) throw error
    // Code that is tested can remove the report, and end the command. It is no grade where the sandbox itself has failed.
    await sandbox.exec(':')
    return ''
  }
}

function notRun(command: string | readonly string[], { exitCode, stderr }: ExecResult): Error {
  return new OsmosisError(
    'tool_failed',
    `The tests were not run: ${JSON.stringify(command)} ended with code ${exitCode}: ${stderr.trim().slice(-300)}`,
  )
}

/** What runners write of tests that passed, and of those that they did not run. Every other word is no pass. */
const passedStates =
  /^(?:pass(?:ed)?|success(?:ful(?:ly)?)?|succeeded|ok|run|ran|complete[d]?|executed|done|fixed)$/i
const notRunStates =
  /^(?:not[ _-]?(?:run|executed|runnable)|no[ _-]?run|disabled|skip(?:ped)?|suppressed|ignored?|pending|todo|inactive|inconclusive|blocked|cancell?ed)$/i

function shareOfPassed(report: string): number {
  // Output of a test may contain anything, tags of a report too. What never closes was cut off. It ends with the report, because
  // the time must not grow with the square of what a test wrote.
  const tags = report.replaceAll(/<!\[CDATA\[[^]*?(?:\]\]>|$)|<!--[^]*?(?:-->|$)/g, (hidden) =>
    /(?:\]\]|--)>$/.test(hidden) ? '' : '<error/>',
  )
  let passed = 0
  let counted = 0
  const [head = '', ...tests] = tags.split(/<(?:[\w-]{1,64}:)?testcase\b/i)
  let besideTests = head
  for (const test of tests) {
    const opening = openingOf(test)
    const isEmpty = opening.endsWith('/>')
    const [content = '', ...behind] = isEmpty
      ? ['', test.slice(opening.length)]
      : test.split(/<\/(?:[\w-]{1,64}:)?testcase\s*>/i)
    besideTests += behind.join('')
    const states = statesOf(opening)
    const hasFailed = hasTag(content, 'failure|error')
    const isSkipped =
      hasTag(content, 'skipped|disabled|ignored') ||
      states.some((state) => notRunStates.test(state))
    if (isSkipped && !hasFailed) continue
    counted += 1
    // A report that was cut off has no end of its last test.
    const isWhole = opening !== '' && (isEmpty || behind.length > 0)
    const isPassed = states.every((state) => passedStates.test(state))
    if (isWhole && isPassed && !hasFailed) passed += 1
  }
  // An error of the suite, such as a set-up that failed, is none of a test.
  if (hasTag(besideTests, 'failure|error')) counted += 1
  return counted === 0 ? 0 : passed / counted
}

/** The rest of a tag, up to its end; '' where that is missing. One expression for all of it would overflow the stack. */
function openingOf(test: string): string {
  const part = /[^"'>]+|"[^"]*"|'[^']*'/y
  let end = 0
  while (part.test(test)) end = part.lastIndex
  return test[end] === '>' ? test.slice(0, end + 1) : ''
}

function hasTag(text: string, names: string): boolean {
  return new RegExp(`<(?:[\\w-]{1,64}:)?(?:${names})\\b`, 'i').test(text)
}

/** The values of the attributes by which runners say what became of a test. */
function statesOf(opening: string): string[] {
  return [
    ...opening.matchAll(/(?<![\w:.-])([\w:.-]{1,64})\s*=\s*(?:"([^"]*)"|'([^']*)')/g),
  ].flatMap(([, name = '', value, other = '']) => {
    const said = value ?? other
    if (/^(?:status|result|outcome|state)$/i.test(name))
      return said.trim() === '' ? [] : [said.trim()]
    if (/^(?:enabled|executed)$/i.test(name) && /^(?:false|0)$/i.test(said)) return ['not run']
    const isSet = /^(?:true|1)$/i.test(said)
    return isSet && /^(?:disabled|skipped|ignored)$/i.test(name) ? ['disabled'] : []
  })
}
