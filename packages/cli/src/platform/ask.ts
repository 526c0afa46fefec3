import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

import { PlatformError } from '@osmosis/platform'

import type { CommandOutput } from './command-output.ts'
import { isInteractive, printError, standardError, standardInput } from '../command/surroundings.ts'

/** A question before something that cannot be taken back. */
export interface Question {
  readonly prompt: string
  /** What will be done. */
  readonly summary?: string
  readonly notes?: readonly string[]
  readonly warnings?: readonly string[]
  /** The answer of an empty line; default: no. */
  readonly defaultYes?: boolean
}

/**
 * Asks a person; `yes` answers for them.
 *
 * @throws PlatformError with code `INTERACTIVE_REQUIRED` where nobody can be asked
 */
export async function confirm(
  question: Question,
  options: { yes: boolean; output: CommandOutput; signal: AbortSignal },
): Promise<boolean> {
  const { prompt, summary = '', notes = [], warnings = [], defaultYes = false } = question
  const { yes, output, signal } = options
  for (const line of [summary, ...notes]) if (line !== '') output.note(line)
  if (yes) return true
  if (output.json || !isInteractive()) {
    throw new PlatformError(
      'INTERACTIVE_REQUIRED',
      `${prompt} There is no terminal to ask in: pass --yes.`,
      {
        details: { prompt, summary, notes, warnings },
      },
    )
  }
  const said = await ask(`${prompt} ${defaultYes ? '[Y/n]' : '[y/N]'} `, signal)
  return said === '' ? defaultYes : /^y(es)?$/i.test(said)
}

/**
 * Asks for something that nobody should see on the screen.
 *
 * @throws PlatformError with code `INTERACTIVE_REQUIRED` where nobody can be asked
 */
export async function askHidden(
  prompt: string,
  { output, signal }: { output: CommandOutput; signal: AbortSignal },
): Promise<string> {
  if (output.json || !isInteractive()) {
    throw new PlatformError('INTERACTIVE_REQUIRED', `${prompt} There is no terminal to ask in.`, {
      details: { prompt, summary: '', notes: [], warnings: [] },
    })
  }
  const said = await ask(`${prompt} `, signal, { hidden: true })
  printError('\n')
  return said
}

async function ask(
  prompt: string,
  signal: AbortSignal,
  { hidden = false }: { hidden?: boolean } = {},
): Promise<string> {
  const output = hidden ? nowhere() : standardError()
  // From here on the terminal shows nothing by itself, so the question comes after it: whoever types
  // as soon as it is there types unseen.
  const lines = createInterface({ input: standardInput(), output, terminal: true })
  // The terminal gives Ctrl-C to the reader of lines.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    if (hidden) printError(prompt)
    return (await lines.question(hidden ? '' : prompt, { signal })).trim()
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    lines.close()
  }
}

function nowhere(): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done() })
}
