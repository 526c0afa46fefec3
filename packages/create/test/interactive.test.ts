import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { spawn, type IPty } from '@lydell/node-pty'
import { frameworkNames } from '@osmosis/create'
import { expect, it, onTestFinished } from 'vitest'

import { temporaryFolder } from '../../../test/kit/index.ts'

const bin = path.resolve(import.meta.dirname, '../src/bin.ts')

/** The command in a real terminal; `answers` are typed when their question is there. */
async function inTerminal(
  folder: string,
  answers: readonly (readonly [question: string, keys: string])[],
): Promise<{ code: number; printed: string }> {
  const args = [bin, '--no-install', '--no-git']
  const terminal: IPty = spawn(process.execPath, args, {
    cols: 200,
    cwd: folder,
    env: { ...process.env, TERM: 'dumb' },
  })
  onTestFinished(() => {
    if (!over) terminal.kill('SIGKILL')
  })
  let over = false
  let printed = ''
  let read = 0
  const waiting = [...answers]
  terminal.onData((text) => {
    printed += text
    const [question, keys] = waiting[0] ?? []
    if (question === undefined || keys === undefined) return
    const found = printed.indexOf(question, read)
    if (found === -1) return
    read = found + question.length
    waiting.shift()
    terminal.write(keys)
  })
  return new Promise((resolve) => {
    terminal.onExit(({ exitCode }) => {
      over = true
      resolve({ code: exitCode, printed })
    })
  })
}

const question = `1 to ${frameworkNames.length} [1] `

it('asks for the folder and the framework, and again after an answer that is none', async () => {
  const folder = await temporaryFolder()
  const { code, printed } = await inTerminal(folder, [
    ['Which folder? [my-agent] ', 'shop\r'],
    [question, '99\r'],
    [question, '3\r'],
  ])
  expect(printed).toContain(`It must be a number from 1 to ${frameworkNames.length}, or a name.`)
  expect(printed).toContain('Created shop with the rollout shop (Vercel AI SDK).')
  expect(code).toBe(0)
  const main = readFileSync(path.join(folder, 'shop/rollouts/shop/main.ts'), 'utf8')
  expect(main).toContain("from '@osmosis/ai-sdk'")
})

it('writes nothing when the question is left with Ctrl-C', async () => {
  const folder = await temporaryFolder()
  const { code, printed } = await inTerminal(folder, [
    ['Which folder? [my-agent] ', '\r'],
    [question, '\u0003'],
  ])
  expect(printed).toContain('error: Nothing was written: the question was not answered.')
  expect(code).toBe(2)
  expect(existsSync(path.join(folder, 'my-agent'))).toBe(false)
})
