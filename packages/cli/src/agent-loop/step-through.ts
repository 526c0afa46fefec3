import type { FunctionTool } from '@osmosis/agent-loop'
import type { AnsweredCall, AnswerHook } from '@osmosis/controller'

import { messageLines } from './message-lines.ts'
import type { Terminal } from './terminal.ts'

const help = 'Commands: [n]ext, [c]ontinue, [m]essages, [t]ools, [q]uit'

/** What a row that its tester left ends with. */
export const abortedByUser = 'Aborted by user'

/** Stops at every answer of one rollout and lets a person look around before the loop goes on. */
export class StepThrough {
  readonly #terminal: Terminal
  #tools: readonly FunctionTool[] = []
  #seen = 0
  #turn = 0
  #mode: 'step' | 'continue' | 'quit' = 'step'

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  /** Whether the person left this rollout. */
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

  /** What was said since the last stop, such as the results of tools. */
  #showNew(messages: AnsweredCall['messages']): void {
    const known = messages.slice(0, this.#seen)
    this.#terminal.print(...messageLines(messages).slice(messageLines(known).length))
  }

  #showTools(): void {
    const lines = this.#tools.map(
      ({ function: { name, description } }) => `  ${name}${description && `: ${description}`}`,
    )
    this.#terminal.print(`Tools: ${lines.length === 0 ? 'none' : ''}`, ...lines)
  }
}

function answerMessage({ text }: AnsweredCall): Record<string, unknown> | undefined {
  try {
    const answer = JSON.parse(text) as { choices?: { message?: Record<string, unknown> }[] }
    return answer.choices?.[0]?.message
  } catch {
    return undefined
  }
}
