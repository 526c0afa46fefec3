import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'

import { describe, expect, it } from 'vitest'

import { run as osmosis } from './in-process.ts'
import { bin } from './osmosis.ts'
import { command, log, talkativeWorkspace, traces } from './talkative-workspace.ts'

describe('the secrets of an evaluation', () => {
  it('come from the file that is named, else from the environment, else from the nearest .env', async () => {
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
