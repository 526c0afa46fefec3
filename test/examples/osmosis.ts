import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'

import { main } from '@osmosis/cli'

import type { Finished } from './command.ts'

/** A temporary home folder, so that commands do not write to the developer's own. */
const home = mkdtempSync(path.join(tmpdir(), 'osmosis-examples-home-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))

/**
 * Runs the `osmosis` command in this process, in a folder.
 *
 * @param userCode - where it runs entrypoints and graders. This process keeps those that it has loaded, as they were then.
 */
export async function osmosis(
  args: readonly string[],
  cwd: string,
  userCode: 'process' | 'here' = 'here',
): Promise<Finished> {
  const printed = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof printed): Writable =>
    new Writable({
      write(text, _encoding, done) {
        printed[name] += String(text)
        done()
      },
    })
  const code = await main(args, {
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    stdin: Readable.from([]),
    env: { ...process.env, HOME: home },
    cwd,
    userCode,
  })
  return { code: code ?? null, ...printed }
}
