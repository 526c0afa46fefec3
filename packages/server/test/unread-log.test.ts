import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { expect, it } from 'vitest'

const script = fileURLToPath(new URL('./chatty-process.ts', import.meta.url))

/**
 * A process that writes this many lines of 1 KB to its log, and whether its event loop continues. It ends
 * when `last` of them has been read.
 */
function startChatty(
  lines: number,
  last: string,
): {
  child: ReturnType<typeof spawn>
  said: () => string
  log: Promise<string>
} {
  const child = spawn(process.execPath, [script, String(lines)], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let said = ''
  child.stdout.on('data', (data: Buffer) => (said += data.toString()))
  const log = (async () => {
    await once(child.stdout, 'data')
    let text = ''
    for await (const data of child.stderr as AsyncIterable<Buffer>) {
      text += data.toString()
      if (text.slice(-data.length - last.length).includes(last)) child.stdin.write('end')
    }
    return text
  })()
  return { child, said: () => said, log }
}

it('a log that is not read blocks nothing, and is complete when it is read again', async () => {
  const { child, said, log } = startChatty(2000, '"line 1999 ')
  const text = await log
  await once(child, 'close')

  expect(said()).toBe('the event loop continued\n')
  const messages = text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { msg: string }).msg.slice(0, 9))
  expect(messages).toEqual([
    ...Array.from({ length: 2000 }, (_, index) => `line ${String(index).padStart(4, '0')}`),
    'last line',
  ])
})

it('more than 8 MiB of it are dropped and counted', { tags: 'slow' }, async () => {
  const { child, log } = startChatty(20_000, ' log lines were dropped')
  const text = await log
  await once(child, 'close')

  const [, dropped] = /"msg":"(\d+) log lines were dropped: stderr was not read"/.exec(text) ?? []
  const written = text.split('"msg":"line ').length - 1
  expect(written + Number(dropped)).toBe(20_000)
  expect(written).toBeGreaterThan(7000)
})
