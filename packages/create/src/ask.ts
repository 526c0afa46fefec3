import { createInterface } from 'node:readline/promises'

import { frameworkNames, frameworks, isFramework, type Framework } from './frameworks.ts'
import { ScaffoldError } from './scaffold-error.ts'

/** Whether a person is there to answer. */
export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY
}

/** Asks for a line of text; an empty one means `preset`. */
export async function askText(question: string, preset: string): Promise<string> {
  const said = await ask(`${question} [${preset}] `)
  return said === '' ? preset : said
}

/** Asks which framework, until the answer is the number or the name of one. */
export async function askFramework(): Promise<Framework> {
  const list = frameworkNames.map(
    (name, index) => `  ${index + 1}  ${name.padEnd(14)} ${frameworks[name].title}\n`,
  )
  process.stderr.write(`Which framework is the agent written with?\n${list.join('')}`)
  for (;;) {
    const said = await ask(`1 to ${frameworkNames.length} [1] `)
    const name = said === '' ? frameworkNames[0] : (frameworkNames[Number(said) - 1] ?? said)
    if (isFramework(name)) return name
    process.stderr.write(`It must be a number from 1 to ${frameworkNames.length}, or a name.\n`)
  }
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const over = new AbortController()
  // Ctrl-C and Ctrl-D both mean that nobody answers any more.
  lines.once('SIGINT', () => over.abort())
  lines.once('close', () => over.abort())
  try {
    return (await lines.question(question, { signal: over.signal })).trim()
  } catch {
    throw new ScaffoldError('Nothing was written: the question was not answered.')
  } finally {
    lines.close()
  }
}
