import { rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { describe, expect, it } from 'vitest'

import { onlyIf } from '../../../test/kit/index.ts'
import { inWorkspace, start } from './in-process.ts'
import { startOsmosis, temporaryFolder, workspace } from './osmosis.ts'

inWorkspace()

function keyFile(text: string): string {
  const file = path.join(temporaryFolder(), 'keys')
  writeFileSync(file, text)
  return file
}

async function statusFor(url: string, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` }
  return (await fetch(`${url}/rollout/none/status`, { headers })).status
}

const withSignals = onlyIf(process.platform !== 'win32', 'a system with signals')

describe('osmosis serve --api-key-file', () => {
  withSignals.it(
    'takes any key of the file, and those of the changed file after SIGHUP, which does not end it while it starts',
    async () => {
      const echo = pathToFileURL(path.join(workspace, 'rollouts/echo/main.ts')).href
      const entrypoint = path.join(temporaryFolder(), 'main.ts')
      const hangUp = `process.kill(process.pid, 'SIGHUP')`
      writeFileSync(entrypoint, `${hangUp}\nexport * from ${JSON.stringify(echo)}\n`)
      const file = keyFile('# callers\nfirst-key\n\n  second-key  \n')
      const serving = startOsmosis(['serve', entrypoint, '--port', '0', '--api-key-file', file])
      const [, url = ''] = await serving.printed(/Listening on (\S+) \(with a bearer key\)/)
      const allowed = async (): Promise<number[]> =>
        Promise.all(
          ['first-key', 'second-key', 'third-key'].map(async (key) => statusFor(url, key)),
        )
      await serving.printed(/read the keys of callers again/)
      expect(await allowed()).toEqual([200, 200, 401])

      writeFileSync(file, 'second-key\nthird-key\n')
      serving.child.kill('SIGHUP')
      await serving.printed(/(?:read the keys of callers again[^]*){2}/)
      expect(await allowed()).toEqual([401, 200, 200])

      writeFileSync(file, '# none\n')
      serving.child.kill('SIGHUP')
      await serving.printed(/the keys of callers are unchanged: .* has no key/)
      expect(await allowed()).toEqual([401, 200, 200])

      // No caller could present such a key.
      writeFileSync(file, `third-key\n${'k'.repeat(20_000)}\n`)
      serving.child.kill('SIGHUP')
      await serving.printed(/the keys of callers are unchanged: Line 2 .* has 20000 characters/)
      expect(await allowed()).toEqual([401, 200, 200])

      // What has no end is not waited for.
      rmSync(file)
      symlinkSync('/dev/zero', file)
      serving.child.kill('SIGHUP')
      await serving.printed(/the keys of callers are unchanged: .* is not a regular file/)
      expect(await allowed()).toEqual([401, 200, 200])
    },
  )

  it.each([
    ['is empty', '\n', /has no key: write one key per line/],
    [
      'holds what cannot be sent',
      '# callers\ntwo words\n',
      /Line 2 of .*keys must be visible ASCII characters/,
    ],
  ])('refuses a file that %s', async (_, text, message) => {
    const args = ['serve', 'rollouts/echo/main.ts', '--port', '0', '--api-key-file', keyFile(text)]
    const { code, stderr } = await start(args).finished
    expect(stderr).toMatch(message)
    expect(code).not.toBe(0)
  })

  withSignals.it('refuses a file without an end, and a huge one', async () => {
    const serve = ['serve', 'rollouts/echo/main.ts', '--port', '0', '--api-key-file']
    for (const file of ['/dev/zero', keyFile('key\n'.repeat(300_000))]) {
      const { code, stderr } = await start([...serve, file]).finished
      expect(stderr).toContain('--api-key-file cannot be read: it has more than 1 MiB')
      expect(code).not.toBe(0)
    }
  })

  it('refuses a file that is not there, and a key beside the file', async () => {
    const serve = ['serve', 'rollouts/echo/main.ts', '--api-key-file', '/nowhere/keys']
    expect((await start(serve).finished).stderr).toMatch(/--api-key-file cannot be read: ENOENT/)
    expect((await start([...serve, '--api-key', 'k']).finished).stderr).toMatch(
      /exclude each other/,
    )
  })
})
