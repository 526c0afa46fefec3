import { Readable, Writable } from 'node:stream'

import { main } from '@osmosis/cli'

/** Runs the `osmosis` command in this process, in a folder that is its home as well. */
export async function runCommand(
  args: readonly string[],
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number; readonly printed: string }> {
  let printed = ''
  const output = new Writable({
    write(text, _encoding, done) {
      printed += String(text)
      done()
    },
  })
  const code = await main(args, {
    stdout: output,
    stderr: output,
    stdin: Readable.from([]),
    env: { ...process.env, HOME: folder, ...env },
    cwd: folder,
    userCode: 'here',
  })
  return { code: code ?? 0, printed }
}
