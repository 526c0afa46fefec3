import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { Readable, Writable } from 'node:stream'

import { main } from '@osmosis/cli'
import { onTestFinished } from 'vitest'

/** A command as the shell would start it. */
interface Call {
  readonly stdin: string
  readonly cwd: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/**
 * Runs the `osmosis` commands of a shell in this process until the test ends.
 *
 * A call has parts that each end with a null: stdin, folder, number of arguments, arguments, variables, and an empty one. The
 * answer has the exit code, stdout and stderr.
 *
 * @returns the port that takes calls
 */
export async function runCommandsHere(): Promise<string> {
  const server = createServer((socket) => {
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      const call = read(text)
      if (call === undefined) return
      answer(socket, call).catch((error: unknown) => {
        socket.end(['1', '', `${String(error)}\n`, ''].join('\0'))
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return String((server.address() as AddressInfo).port)
}

async function answer(socket: Socket, call: Call): Promise<void> {
  const { stdin, ...context } = call
  const output = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof output): Writable =>
    new Writable({
      write: (text, _encoding, done) => {
        output[name] += String(text)
        done()
      },
    })
  const code = await main(call.args, {
    ...context,
    stdin: Readable.from(stdin === '' ? [] : [stdin]),
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    userCode: 'here',
  })
  socket.end([code ?? 0, output.stdout, output.stderr, ''].join('\0'))
}

/** The call of a text; undefined while a part of it is missing. */
function read(text: string): Call | undefined {
  const [stdin = '', cwd = '', count = '', ...words] = text.split('\0')
  const variables = words.slice(Number(count))
  // What stands behind the last null has not ended.
  const end = variables.slice(0, -1).indexOf('')
  if (count === '' || end === -1) return undefined
  const env = variables.slice(0, end).map((variable): [string, string] => {
    const [name = ''] = variable.split('=', 1)
    return [name, variable.slice(name.length + 1)]
  })
  return { stdin, cwd, args: words.slice(0, Number(count)), env: Object.fromEntries(env) }
}
