import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { FakeController, isRunning, post, withPrograms } from '../../../test/kit/index.ts'
import { bin, testEnvironment, workspace } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

const main = `import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CallingWorkflow } from '${workspace}/rollouts/calling/main.ts'
export { OneGrader } from '${workspace}/rollouts/calling/main.ts'
export class PrintingWorkflow extends CallingWorkflow {
  override async run(ctx) {
    console.log('the server is process ' + (process.send ? process.ppid : process.pid) + '.')
    while (!existsSync('continue')) await sleep(10)
    console.log('unread output')
    console.error('unread output')
    await super.run(ctx)
  }
}
`

const { it } = withPrograms('script')

it(
  'a server whose terminal is closed delivers what printing rollouts in workers end with',
  { tags: 'slow' },
  async () => {
    await expectDelivery('--workers 2')
  },
)

it(
  'a server whose terminal is closed delivers what printing rollouts in its process end with',
  { tags: 'nightly' },
  async () => {
    await expectDelivery('')
  },
)

async function expectDelivery(flags: string): Promise<void> {
  await using controller = await new FakeController().start()
  const root = temporaryWorkspace({ 'rollouts/printing/main.ts': main })
  const serve = `'${process.execPath}' '${bin}' serve rollouts/printing/main.ts --port 0 ${flags}`
  const terminal = spawn('script', ['-qfc', `exec ${serve}`, '/dev/null'], {
    cwd: root,
    env: testEnvironment,
  })
  onTestFinished(() => void terminal.kill('SIGKILL'))
  let shown = ''
  terminal.stdout.on('data', (bytes) => {
    shown += String(bytes)
  })
  const read = async (pattern: RegExp): Promise<string> => {
    await expect.poll(() => shown).toMatch(pattern)
    return pattern.exec(shown)?.[1] ?? ''
  }
  const url = await read(/Listening on (\S+) /)
  const send = async (): Promise<number> =>
    (await post(`${url}/rollout`, controller.rolloutBody())).status
  expect(await send()).toBe(202)
  const pid = Number(await read(/the server is process (\d+)\./))
  onTestFinished(() => void (isRunning(pid) && process.kill(pid, 'SIGKILL')))
  terminal.kill('SIGKILL')
  // It is known, until nothing is admitted any more.
  await expect.poll(send).toBe(503)
  writeFileSync(path.join(root, 'continue'), '')

  expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
  await expect.poll(() => isRunning(pid)).toBe(false)
}
