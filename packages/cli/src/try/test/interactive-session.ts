import { createInterface, type Interface } from 'node:readline'

import type { FunctionTool } from '@osmosis/agent-loop'
import type { AnsweredCall, AnswerHook } from '@osmosis/controller'
import { parseJson } from '@osmosis/core/http'
import type { DatasetRow } from '@osmosis/eval'

import type { InputStream, OutputStream } from '../../command/command-context.ts'
import { withoutControls } from '../../command/terminal-controls.ts'
import { outputWidth, wrapped } from '../../command/terminal-text.ts'
import { runLoopRow, type LoopRunnerParts, messageLines, rowLine } from './run-row.ts'

/**
 * Lets the user choose rows and step through them until they quit.
 *
 * @param firstRow - index of the row to begin with, instead of asking
 */
export async function interactiveSession(
  terminal: Terminal,
  rows: readonly DatasetRow[],
  parts: LoopRunnerParts,
  firstRow: number | undefined,
): Promise<void> {
  let said: string | null = firstRow === undefined ? '' : String(firstRow)
  for (;;) {
    const row = said === '' ? undefined : rowNamed(terminal, rows, said)
    if (row !== undefined) await stepThroughRow(terminal, row, parts)
    said = await terminal.ask(`Select a row to test [${range(rows)}] or 'q' to quit: `)
    if (said === null || ['q', 'quit', 'exit'].includes(said.toLowerCase())) break
  }
  terminal.print('Interactive session ended.')
}

async function stepThroughRow(
  terminal: Terminal,
  row: DatasetRow,
  parts: LoopRunnerParts,
): Promise<void> {
  const steps = new StepThrough(terminal)
  terminal.print('', `Row ${row.sourceRowIndex}`)
  const hooks = { onAccepted: steps.setTools, onAnswer: steps.onAnswer }
  const result = await runLoopRow(row, { ...parts, hooks })
  const outcome = steps.left ? { ...result, error: abortedByUser } : result
  terminal.print('', rowLine(outcome, 1, 1))
  if (steps.left) return
  if (result.finishReason !== null) terminal.print(`Finish reason: ${result.finishReason}`)
  const next = await terminal.ask('[m]essages, or Enter to continue: ')
  if (next?.toLowerCase().startsWith('m')) terminal.print(...messageLines(result.finalMessages))
}

function rowNamed(
  terminal: Terminal,
  rows: readonly DatasetRow[],
  said: string,
): DatasetRow | undefined {
  if (!/^\d+$/.test(said)) {
    terminal.print("Please enter a valid row number or 'q' to quit.")
    return undefined
  }
  const row = rows.find(({ sourceRowIndex }) => sourceRowIndex === Number(said))
  if (row === undefined) {
    terminal.print(`Invalid row index: ${said}. Valid range: ${range(rows)}`)
  }
  return row
}

function range(rows: readonly DatasetRow[]): string {
  return `${rows[0]?.sourceRowIndex}-${rows.at(-1)?.sourceRowIndex}`
}

const help = 'Commands: [n]ext, [c]ontinue, [m]essages, [t]ools, [q]uit'

/** The error of a row that the user left. */
const abortedByUser = 'Aborted by user'

/** Stops at every answer of one rollout and lets the user inspect it before the loop continues. */
class StepThrough {
  readonly #terminal: Terminal
  #tools: readonly FunctionTool[] = []
  #seen = 0
  #turn = 0
  #mode: 'step' | 'continue' | 'quit' = 'step'

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  /** Whether the user left this rollout. */
  get left(): boolean {
    return this.#mode === 'quit'
  }

  readonly setTools = (tools: readonly FunctionTool[]): void => {
    this.#tools = tools
    this.#showTools()
  }

  readonly onAnswer: AnswerHook = async (call) => {
    if (this.#mode === 'quit') return abortedByUser
    const said = answerMessage(call)
    this.#showNew(call.messages)
    this.#turn += 1
    this.#terminal.print('', `--- Turn ${this.#turn} ---`)
    this.#terminal.print(
      ...(said === undefined
        ? [`The policy answered ${call.status}: ${call.text}`]
        : messageLines([said])),
    )
    this.#seen = call.messages.length + (said === undefined ? 0 : 1)
    if (this.#mode === 'step') await this.#command(call, said)
    return this.left ? abortedByUser : null
  }

  async #command(call: AnsweredCall, said: Record<string, unknown> | undefined): Promise<void> {
    this.#terminal.print(help)
    for (;;) {
      const command = await this.#terminal.ask('> ')
      switch (command?.toLowerCase()) {
        case '':
        case 'n':
        case 'next':
          return
        case 'c':
        case 'continue':
          this.#mode = 'continue'
          return
        case 'm':
        case 'messages':
          this.#terminal.print(...messageLines([...call.messages, ...(said ? [said] : [])]))
          break
        case 't':
        case 'tools':
          this.#showTools()
          break
        case undefined:
        case 'q':
        case 'quit':
        case 'exit':
          this.#mode = 'quit'
          return
        default:
          this.#terminal.print(`Unknown command: ${command}`, help)
      }
    }
  }

  /** Prints messages since the last stop, such as the results of tools. */
  #showNew(messages: AnsweredCall['messages']): void {
    const known = messages.slice(0, this.#seen)
    this.#terminal.print(...messageLines(messages).slice(messageLines(known).length))
  }

  #showTools(): void {
    const lines = this.#tools.map(
      ({ function: { name, description } }) => `  ${name}${description && `: ${description}`}`,
    )
    this.#terminal.print(lines.length === 0 ? 'Tools: none' : 'Tools:', ...lines)
  }
}

function answerMessage({ text }: AnsweredCall): Record<string, unknown> | undefined {
  const answer = parseJson(text) as
    | { choices?: { message?: Record<string, unknown> }[] }
    | null
    | undefined
  return answer?.choices?.[0]?.message
}

/** Prints lines to a terminal and reads lines from it. The caller disposes of it. */
export class Terminal implements Disposable {
  readonly #lines: Interface
  readonly #output: OutputStream
  /** Lines that arrived before they were requested. */
  readonly #typed: string[] = []
  #waiting: ((line: string | null) => void) | undefined
  #closed = false

  constructor(input: InputStream, output: OutputStream) {
    this.#output = output
    this.#lines = createInterface({ input, output })
    this.#lines.on('line', (line) => this.#receive(line))
    // Ctrl-C and Ctrl-D both end the input.
    this.#lines.on('SIGINT', () => this.#lines.close())
    this.#lines.on('close', () => {
      this.#closed = true
      this.#waiting?.(null)
    })
  }

  print(...lines: readonly string[]): void {
    const shown = wrapped(withoutControls(lines.join('\n')), outputWidth(this.#output))
    this.#output.write(shown.map((line) => `${line}\n`).join(''))
  }

  /** Reads a line, trimmed; null after the end of the input. */
  async ask(prompt: string): Promise<string | null> {
    const typed = this.#typed.shift()
    this.#lines.setPrompt(prompt)
    if (typed !== undefined) {
      this.#output.write(`${prompt}\n`)
      return typed
    }
    if (this.#closed) return null
    this.#lines.prompt()
    const { promise, resolve } = Promise.withResolvers<string | null>()
    this.#waiting = resolve
    return promise
  }

  [Symbol.dispose](): void {
    this.#lines.close()
  }

  #receive(line: string): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    if (waiting) waiting(line.trim())
    else this.#typed.push(line.trim())
  }
}
