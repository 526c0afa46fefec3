import type { AirlineTask } from './airline-tasks.ts'
import { between, type Random } from './random.ts'

/** What an agent does in one step of a made-up conversation. */
export interface AgentTurn {
  readonly reasoning?: string
  readonly call?: readonly [name: string, args: Readonly<Record<string, unknown>>]
  readonly result?: string
  readonly error?: boolean
  readonly finish?: string
  readonly rewritten?: boolean
}

interface Step {
  step_id: number
  [key: string]: unknown
}

/** A synthetic conversation, built step by step, and its cost. */
export class Conversation {
  readonly steps: Step[] = []
  readonly finish: Record<string, number> = {}
  readonly tools = new Map<string, { calls: number; errors: number }>()
  readonly #random: Random
  readonly #startMs: number
  #clockMs: number
  #promptTokens: number
  calls = 0
  toolCalls = 0
  toolErrors = 0
  promptTokens = 0
  completionTokens = 0
  rewritten = 0
  lastText = ''

  constructor(task: AirlineTask, attempt: number, random: Random) {
    this.#random = random
    this.#startMs = Date.UTC(2026, 10, 20, 9) + task.row * 900 + attempt * 90
    this.#clockMs = this.#startMs
    this.#promptTokens = 1480 + Math.floor(task.ask.length / 4)
  }

  get durationMs(): number {
    return this.#clockMs - this.#startMs
  }

  get endedAt(): string {
    return new Date(this.#clockMs).toISOString()
  }

  say(source: 'system' | 'user', message: string): void {
    this.#add({ source, message }, between(this.#random, 1, 20))
  }

  agent(message: string, turn: AgentTurn = {}): void {
    const { reasoning, call, finish = call === undefined ? 'stop' : 'tool_calls' } = turn
    const written = message.length + (reasoning?.length ?? 0) + JSON.stringify(call ?? '').length
    const tokens = Math.ceil(written / 3.6) + between(this.#random, 4, 30)
    const latencyMs = 400 + tokens * between(this.#random, 9, 14)
    this.calls += 1
    this.finish[finish] = (this.finish[finish] ?? 0) + 1
    this.completionTokens += tokens
    this.promptTokens += this.#promptTokens
    if (turn.rewritten === true) this.rewritten += 1
    if (message !== '') this.lastText = message
    const extra = { latency_ms: latencyMs, finish_reason: finish }
    this.#add(
      {
        source: 'agent',
        message,
        ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
        ...(call === undefined ? {} : this.#toolCall(call, turn)),
        metrics: {
          prompt_tokens: this.#promptTokens,
          completion_tokens: tokens,
          extra: { ...extra, ...(turn.rewritten === true ? { history_rewritten: true } : {}) },
        },
        llm_call_count: 1,
      },
      latencyMs,
    )
    this.#promptTokens += tokens + Math.ceil((turn.result ?? '').length / 3.6)
  }

  #toolCall([name, args]: NonNullable<AgentTurn['call']>, turn: AgentTurn): object {
    const id = `call_${this.calls}`
    const used = this.tools.get(name) ?? { calls: 0, errors: 0 }
    const errors = turn.error === true ? 1 : 0
    this.tools.set(name, { calls: used.calls + 1, errors: used.errors + errors })
    this.toolCalls += 1
    this.toolErrors += errors
    return {
      tool_calls: [{ tool_call_id: id, function_name: name, arguments: args }],
      observation: { results: [{ source_call_id: id, content: turn.result ?? '' }] },
    }
  }

  #add(step: object, tookMs: number): void {
    this.#clockMs += tookMs
    const timestamp = new Date(this.#clockMs).toISOString()
    this.steps.push({ step_id: this.steps.length + 1, timestamp, ...step })
  }
}
