import {
  AfterToolCallEvent,
  BeforeToolCallEvent,
  type LocalAgent,
  type Plugin,
} from '@strands-agents/sdk'
import type { RolloutTrace, ToolTrace } from '@osmosis/core/tracing'

/** Makes spans of the tools that an agent runs, by the public hooks of Strands. */
export class ToolSpanPlugin implements Plugin {
  readonly name = 'osmosis:tool-spans'
  readonly #trace: RolloutTrace
  readonly #sampleId: string
  /** Those that run, the latest one last. Ids are the policy's, and need not differ. */
  readonly #open: { readonly id: string; readonly tool: ToolTrace }[] = []

  constructor(trace: RolloutTrace, sampleId: string) {
    this.#trace = trace
    this.#sampleId = sampleId
  }

  initAgent(agent: LocalAgent): void {
    agent.addHook(BeforeToolCallEvent, ({ toolUse: { name, toolUseId: id }, cancel }) => {
      const tool = cancel ? undefined : this.#trace.tool(this.#sampleId, { name, id })
      if (tool !== undefined) this.#open.push({ id, tool })
    })
    agent.addHook(AfterToolCallEvent, ({ toolUse: { toolUseId }, result, error }) => {
      const index = this.#open.findLastIndex(({ id }) => id === toolUseId)
      const [ended] = index < 0 ? [] : this.#open.splice(index, 1)
      if (result.status === 'error') ended?.tool.fail(error)
      else ended?.tool.end()
    })
  }
}
