import {
  BaseLlm,
  BaseTool,
  InMemoryRunner,
  LlmAgent,
  setLogger,
  StreamingMode,
  type LlmRequest,
  type LlmResponse,
} from '@google/adk'
import { requireRolloutContext } from '@osmosis/core'
import { recordOf } from '@osmosis/core/workflow'
import { OsmosisLlm } from '@osmosis/google-adk'
import type { AdapterUnderTest, ContractRun, ContractTool } from '@osmosis/testing'

// It writes each error to the console.
setLogger(null)

type Declaration = ReturnType<BaseTool['_getDeclaration']>

/** A tool with a JSON schema that is not checked. */
class LooseTool extends BaseTool {
  readonly #tool: ContractTool

  constructor(tool: ContractTool) {
    super({ name: tool.name, description: tool.description })
    this.#tool = tool
  }

  override _getDeclaration(): Declaration {
    const { name, description, parameters } = this.#tool
    return { name, description, parametersJsonSchema: parameters }
  }

  override async runAsync({ args }: { args: Record<string, unknown> }): Promise<unknown> {
    return { result: this.#tool.execute(args) }
  }
}

/** A model that the ADK does not have: chat completions, without tools. */
class ChatLlm extends BaseLlm {
  readonly #url: string

  constructor(url: string) {
    super({ model: 'gpt-4.1' })
    this.#url = url
  }

  override async *generateContentAsync({ contents }: LlmRequest): AsyncGenerator<LlmResponse> {
    const messages = contents.map(({ parts }) => ({ role: 'user', content: parts?.[0]?.text }))
    const body = JSON.stringify({ model: this.model, messages })
    const response = await fetch(`${this.#url}/chat/completions`, { method: 'POST', body })
    const { choices } = (await response.json()) as { choices: [{ message: { content: string } }] }
    yield { content: { role: 'model', parts: [{ text: choices[0].message.content }] } }
  }

  override async connect(): Promise<never> {
    throw new Error('There is no live connection.')
  }
}

async function runAgent(
  { name, prompt, tools = [], signal }: ContractRun,
  streamingMode: StreamingMode,
  maxLlmCalls = 500,
  fallback?: BaseLlm,
): Promise<string> {
  const agent = new LlmAgent({
    name: 'solver',
    model: new OsmosisLlm({ name, fallback }),
    tools: tools.map((tool) => new LooseTool(tool)),
  })
  const runner = new InMemoryRunner({ agent, appName: 'contract' })
  const { sessionService, appName } = runner
  const { id: sessionId } = await sessionService.createSession({ appName, userId: 'user' })
  let said = ''
  for await (const event of runner.runAsync({
    userId: 'user',
    sessionId,
    newMessage: { role: 'user', parts: [{ text: prompt }] },
    runConfig: { streamingMode, maxLlmCalls },
    ...(signal ? { abortSignal: signal } : {}),
  })) {
    // The ADK throws no errors: they are events, and the rollout fails.
    if (event.errorCode !== undefined)
      recordOf(requireRolloutContext('The agent')).throwUnnoticedError()
    if (event.partial) continue
    const texts = (event.content?.parts ?? []).flatMap(({ text, thought }) =>
      text === undefined || thought ? [] : [text],
    )
    if (event.author !== 'user' && texts.length > 0) said = texts.join('')
  }
  return said
}

const request: LlmRequest = { contents: [], liveConnectConfig: {}, toolsDict: {} }

const common = {
  construct: (name: string) => new OsmosisLlm(name),
  callPlaceholder: async () => new OsmosisLlm().generateContentAsync(request).next(),
  runTwoTurns: async (run: ContractRun) => runAgent(run, StreamingMode.NONE, 2),
  runWithFallback: async (run: ContractRun, url: string) =>
    runAgent(run, StreamingMode.NONE, 2, new ChatLlm(url)),
  exempt: {
    'refuses-duplicates': 'models of one name are one sample',
    'logs-tool-errors': 'only plugins of a runner see what a tool threw',
    'grades-wrong-output': 'the ADK takes a text without the structure that is due for the output',
  },
  concurrentRollouts: 5,
} satisfies Partial<AdapterUnderTest>

export const whole: AdapterUnderTest = {
  ...common,
  run: async (run) => runAgent(run, StreamingMode.NONE),
}

export const streamed: AdapterUnderTest = {
  ...common,
  run: async (run) => runAgent(run, StreamingMode.SSE),
}
