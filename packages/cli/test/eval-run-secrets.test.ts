import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'

import { describe, expect, it } from 'vitest'

import { run as osmosis, useProcesses } from './in-process.ts'
import { type Finished, bin } from './osmosis.ts'
import { command, log, talkativeWorkspace, traces } from './talkative-workspace.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

describe('the secrets of an evaluation', () => {
  it('reach the rollout and nothing that is printed, logged or written', async () => {
    // The rollout prints its variables.
    useProcesses()
    const root = talkativeWorkspace()
    const secrets = { FIRST: 'first-secret', SECOND: 'second "quoted" secret' }
    const finished = await osmosis(command, { ...secrets, PLAIN: 'hidden' }, root)
    expect(log(root)).toContain(
      '{"FIRST":"[redacted]","SECOND":"[redacted]","PLAIN":"from the config"}\n',
    )
    expect(log(root)).toMatch(/^\[redacted\]$/m)
    const said = traces(root, finished)
    expect(said).toContain('wrong key: [redacted] and [redacted]')
    expect(said).not.toMatch(/first-|-secret|quoted/)
  })

  it('may have other values when the run continues, but not other names', async () => {
    const file = 'configs/eval/secretive.toml'
    const root = temporaryWorkspace({
      [file]: evalConfig('echo', '[secrets]\nrequired = ["FIRST", "SECOND"]\n'),
    })
    const args = ['eval', 'run', file, '--policy', 'policies/echo.ts', '--limit', '1']
    const start = async (values: Record<string, string>): Promise<Finished> =>
      osmosis([...args, '--name', 'r', '--n', '1'], values, root)
    const old = { FIRST: 'old-value-one', SECOND: 'old-value-two' }
    expect((await start(old)).stderr).toContain('Starting r\n')
    expect((await start({ ...old, FIRST: 'new-value-one' })).stderr).toContain(
      'Resuming r, 1 of 1 done\n',
    )
    const config = path.join(root, file)
    writeFileSync(config, readFileSync(config, 'utf8').replace('"SECOND"]', '"SECOND", "THIRD"]'))
    expect((await start({ ...old, THIRD: 'value' })).stderr).toContain(
      'these have changed: secrets (their names). Pass --fresh to start a new run',
    )
  })

  it(
    'are not in the last output of an entrypoint that cannot be loaded',
    { tags: 'slow' },
    async () => {
      useProcesses()
      const root = talkativeWorkspace({
        'rollouts/talkative/main.ts': 'throw new Error(`wrong key: ${process.env.FIRST}`)\n',
      })
      const env = { FIRST: 'first-secret', SECOND: 'second-secret' }
      const { code, stdout, stderr } = await osmosis(command, env, root)
      expect([code, stdout, stderr]).toEqual([
        2,
        '',
        expect.stringContaining('wrong key: [redacted]'),
      ])
      expect(stderr).not.toContain('-secret')
    },
  )

  it('are missing when they are empty or nowhere; a bad line of a file is named, not shown', async () => {
    const root = talkativeWorkspace({
      'my.secrets': 'FIRST=\n',
      'bad.secrets': 'FIRST=a\nsesame open\n',
    })
    const missing = await osmosis([...command, '--secrets-file', 'my.secrets'], {}, root)
    expect(missing.stderr).toBe(
      'error: The rollout needs secrets that have no value: FIRST, SECOND. Set them in the environment or in .env, or pass --secrets-file <file>.\n',
    )
    const bad = await osmosis([...command, '--secrets-file', 'bad.secrets'], {}, root)
    expect(bad.stderr).toBe('error: Line 2 of bad.secrets is not NAME=value.\n')
  })

  it.each([
    ['UTF-8 without a byte order mark', (content: string) => Buffer.from(content)],
    ['UTF-8 with one', (content: string) => Buffer.from(`\uFEFF${content}`)],
    [
      'UTF-16, as PowerShell writes it',
      (content: string) => Buffer.from(`\uFEFF${content}`, 'utf16le'),
    ],
    [
      'UTF-16 of the other order',
      (content: string) => Buffer.from(`\uFEFF${content}`, 'utf16le').swap16(),
    ],
  ])('are read from files in %s', async (_, encode) => {
    const root = talkativeWorkspace()
    const secrets = path.join(root, 'my.secrets')
    for (const file of ['.env', 'my.secrets']) {
      writeFileSync(path.join(root, file), encode('FIRST=first-é\r\n# SECOND\r\n'))
      const flags = file === '.env' ? [] : ['--secrets-file', secrets]
      const { stderr } = await osmosis([...command, ...flags], {}, root)
      expect(stderr).toContain('The rollout needs secrets that have no value: SECOND. ')
      rmSync(path.join(root, file))
    }
  })
})

describe('the secrets of an evaluation', { tags: 'slow' }, () => {
  it('come from the file that is named, else from the environment, else from the nearest .env', async () => {
    useProcesses()
    const root = talkativeWorkspace({
      'my.secrets': "# mine\n\nexport FIRST='file-value1'\nUNUSED=x\n",
    })
    writeFileSync(path.join(root, '.env'), 'FIRST=env\nSECOND="second env value"\n')
    const lengths = async (flags: string[], env: Record<string, string>): Promise<string> => {
      rmSync(path.join(root, '.osmosis'), { recursive: true, force: true })
      const args = command.map((word) => word.replace(/^(configs|policies)/, '../$1'))
      const finished = await osmosis([...args, ...flags], env, path.join(root, 'rollouts'))
      expect(traces(root, finished)).not.toMatch(/-value|env value/)
      return /^lengths .*$/m.exec(log(root))?.[0] ?? ''
    }
    const file = ['--secrets-file', '../my.secrets']
    expect(await lengths(file, { FIRST: 'environment-value1' })).toBe('lengths 11 16')
    expect(await lengths([], { FIRST: 'environment-value1' })).toBe('lengths 18 16')
    expect(await lengths([], {})).toBe('lengths 3 16')
  })

  it('can be piped in', async () => {
    const root = talkativeWorkspace()
    const child = spawn(process.execPath, [bin, ...command, '--secrets-file', '-'], {
      cwd: root,
      stdio: 'pipe',
    })
    child.stdin.end('FIRST=piped-in\nSECOND=piped-too\n')
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
    expect(log(root)).toContain('"FIRST":"[redacted]"')
    expect(traces(root, { code: child.exitCode, stdout, stderr })).not.toContain('piped')
  })
})
