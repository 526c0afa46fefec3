import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { LocalSandbox, type Sandbox } from '@osmosis/core/sandbox'
import { unitTests } from '@osmosis/core/scores'
import { expect, it, onTestFinished } from 'vitest'

async function sandbox(): Promise<LocalSandbox> {
  const folder = await mkdtemp(path.join(tmpdir(), 'scores-'))
  const box = new LocalSandbox({ folder, env: { PATH: process.env['PATH'] ?? '' } })
  onTestFinished(async () => {
    await box.close()
    await rm(folder, { recursive: true, force: true })
  })
  return box
}

const nodeTests = 'node --test --test-reporter=junit --test-reporter-destination=report.xml'
const tests = `
const { test } = require('node:test')
test('a', () => {})
test('b </testcase> <failure>', () => {})
test('c', () => { throw new Error('<testcase/>') })
test('d', { skip: true }, () => {})
`

it('is 1 for a command that ends with code 0, else 0', async () => {
  const box = await sandbox()
  expect(await unitTests(box, 'true')).toBe(1)
  expect(await unitTests(box, 'exit 3')).toBe(0)
  expect(await unitTests(box, 'sleep 20', { timeoutSeconds: 0.2 })).toBe(0)
})

it('is the share of passed tests with the report of a real runner', async () => {
  const box = await sandbox()
  await box.write('sum.test.cjs', tests)
  expect(await unitTests(box, nodeTests, { junit: 'report.xml' })).toBeCloseTo(2 / 3)
})

it('takes no report that the agent left', async () => {
  const box = await sandbox()
  const forged = '<testsuites><testcase name="a"/></testsuites>'
  await box.write('report.xml', forged)
  expect(await unitTests(box, 'exit 1', { junit: 'report.xml' })).toBe(0)
  await box.write('report.xml', forged)
  await expect(unitTests(box, 'true', { junit: 'report.xml' })).rejects.toThrow(/wrote no report/)
})

it.each([
  ['a folder', 'mkdir -p out/report.xml/in'],
  ['a link to another folder', 'mkdir out; ln -s /etc out/report.xml'],
  ['a link that leads nowhere', 'mkdir out; ln -s /nowhere/at/all out/report.xml'],
  ['a pipe', 'mkdir out; mkfifo out/report.xml'],
  ['a link in place of its folder', 'ln -s "$PWD.outside" out'],
  ['a file in place of its folder', 'echo > out'],
])('grades the tests, although the agent left %s where the report will be', async (_, line) => {
  const box = await sandbox()
  const junit = 'out/report.xml'
  await box.exec(line)
  expect(await unitTests(box, 'exit 1', { junit })).toBe(0)
  await box.exec(`rm -r out; ${line}`)
  await expect(unitTests(box, 'true', { junit })).rejects.toThrow(/wrote no report/)
  await box.exec(`rm -r out; ${line}`)
  const report = '<testsuites><testcase name="a"/></testsuites>'
  expect(await unitTests(box, ['sh', '-c', 'echo "$0" > out/report.xml', report], { junit })).toBe(
    1,
  )
})

it('removes nothing outside of the sandbox', async () => {
  const box = await sandbox()
  const outside = await mkdtemp(path.join(tmpdir(), 'outside-'))
  onTestFinished(async () => rm(outside, { recursive: true }))
  for (const junit of [outside, `../${path.basename(outside)}`]) {
    await expect(unitTests(box, 'exit 1', { junit })).rejects.toMatchObject({
      code: 'invalid_request',
    })
  }
  expect(existsSync(outside)).toBe(true)
})

it.each(['rm report.xml', 'rm report.xml; mkdir report.xml'])(
  'is 0 for a command that failed after %s',
  async (line) => {
    const box = await sandbox()
    const junit = 'report.xml'
    expect(await unitTests(box, `${line}; exit 1`, { junit })).toBe(0)
    await box.write('other.xml', '')
    await expect(
      unitTests(box, line.replaceAll('report', 'other'), { junit: 'other.xml' }),
    ).rejects.toThrow(expect.objectContaining({ code: 'tool_failed' }))
  },
)

it('has no grade where the sandbox has failed, and not the tests', async () => {
  const box = await sandbox()
  const gone: Sandbox = {
    exec: async (command, options) => {
      const result = await box.exec(command, options)
      await box.close()
      return result
    },
    read: async () => Promise.reject(new Error('gone')),
    write: async (file, content) => box.write(file, content),
    close: async () => box.close(),
  }
  await expect(unitTests(gone, 'exit 1', { junit: 'report.xml' })).rejects.toThrow(
    'The sandbox is closed.',
  )
})

it('is 0 without a test, and never 1 for a command that failed', async () => {
  const box = await sandbox()
  const write = (report: string, code: number): string =>
    `printf '%s' '${report}' > report.xml; exit ${code}`
  const junit = 'report.xml'
  expect(await unitTests(box, write('<testsuites/>', 0), { junit })).toBe(0)
  expect(await unitTests(box, write('<testcase name="a"/>', 1), { junit })).toBe(0)
  expect(await unitTests(box, write('<testcase name="a"/>', 0), { junit })).toBe(1)
})

it('throws when the command cannot be started: no answer was judged', async () => {
  const box = await sandbox()
  const failed = expect.objectContaining({ code: 'tool_failed' })
  await expect(unitTests(box, 'no-such-runner')).rejects.toThrow(failed)
  await expect(unitTests(box, ['no-such-runner'])).rejects.toThrow(failed)
})

it.each([
  ['GoogleTest', '<testcase name="x" status="notrun" result="suppressed"/>'],
  ['GoogleTest, skipped', '<testcase name="x" status="run" result="skipped"><skipped/></testcase>'],
  ['CTest', "<testcase name='x' status='disabled'><system-out/></testcase>"],
  ['CTest, without its program', '<testcase name="x" status="Not Run"></testcase>'],
  ['NUnit', '<testcase name="x" executed="False"/>'],
  ['a runner with elements', '<testcase name="x"><disabled/></testcase>'],
  ['a runner with flags', '<testcase name="x" disabled="true"/>'],
  ['MSTest', '<testcase name="x" outcome="NotExecuted"/>'],
  ['NUnit, without a verdict', '<testcase name="x" result="Inconclusive"/>'],
  ['NUnit, not runnable', '<testcase name="x" result="NotRunnable"/>'],
  ['Robot Framework', '<testcase name="x" status="SKIP"/>'],
  ['a runner that was cancelled', '<testcase name="x" status="canceled"/>'],
  ['a runner with prefixes', '<ns:testcase name="x"><ns:skipped/></ns:testcase>'],
])('does not count a test that %s did not run', async (_runner, test) => {
  const box = await sandbox()
  const report = `<testsuite>${test}<testcase name="status='notrun'" status="run"/><testcase name="b"><failure/></testcase></testsuite>`
  await box.write('made.xml', report)
  expect(await unitTests(box, 'cp made.xml report.xml; exit 1', { junit: 'report.xml' })).toBe(0.5)
})

it.each([
  'status="failed"',
  'result="Error"',
  "outcome='timedOut'",
  'status="xfail"',
  'result="?"',
])('does not count a test as passed that says %s', async (state) => {
  const box = await sandbox()
  await box.write('made.xml', `<testcase name="a"/><testcase name="b" ${state}/>`)
  const score = await unitTests(box, 'cp made.xml report.xml', { junit: 'report.xml' })
  expect(score).toBe(0.5)
})

it.each([
  [
    'a failure beside a mark that it was skipped',
    '<testcase name="b"><skipped/><failure/></testcase>',
    0.5,
  ],
  ['a report that was cut off', '<testcase name="b"><system-out>half', 0.5],
  ['a report that was cut off in a tag', '<testcase name="b" cla', 0.5],
  ['a report that was cut off in a comment', '<!--<testcase name="b"/>', 0.5],
  [
    'a report that was cut off in the output of a test',
    '<testcase name="b"><system-out><![CDATA[</testcase>',
    0.5,
  ],
  ['an error of the suite', '<error message="set-up failed"/>', 0.5],
  ['tags in capitals', '<TESTCASE name="b"><FAILURE/></TESTCASE>', 0.5],
  ['tags with a prefix', '<ns:testcase name="b"><ns:failure/></ns:testcase>', 0.5],
  ['the words of runners that pass', '<testcase name="b" status="run" result="Completed"/>', 1],
  ['no word', '<testcase name="b" status=""/>', 1],
  ['a failure that passed when it ran again', '<testcase name="b"><flakyFailure/></testcase>', 1],
])('reads %s', async (_what, rest, score) => {
  const box = await sandbox()
  await box.write('made.xml', `<testsuite><testcase name="a"/>${rest}`)
  expect(await unitTests(box, 'cp made.xml report.xml', { junit: 'report.xml' })).toBe(score)
})

it('is 0 for a tag of 20 MB that never closes', async () => {
  const box = await sandbox()
  const write = "(printf '<testcase '; head -c 20000000 /dev/zero | tr '\\0' a) > report.xml"
  expect(await unitTests(box, write, { junit: 'report.xml' })).toBe(0)
})

it('reads comments that never close in time that does not grow with their square', async () => {
  const box = await sandbox()
  await box.write('made.xml', `<testcase name="a"/>${'<!--'.repeat(100_000)}`)
  const start = performance.now()
  expect(await unitTests(box, 'cp made.xml report.xml', { junit: 'report.xml' })).toBe(0.5)
  expect(performance.now() - start).toBeLessThan(5000)
})
