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
    return { result: await this.#tool.execute(args) }
  }
}

/** A model that the ADK does not have: chat completions, which get what the ADK gives. */
class ChatLlm extends BaseLlm {
  readonly #url: string

  constructor(url: string) {
    super({ model: 'gpt-4.1' })
    this.#url = url
  }

  override async *generateContentAsync(request: LlmRequest): AsyncGenerator<LlmResponse> {
    const { model, contents, config } = request
    const messages = contents.map((content) => ({ role: 'user', content: JSON.stringify(content) }))
    const body = JSON.stringify({ model, messages, config })
    const response = await fetch(`${this.#url}/chat/completions`, { method: 'POST', body })
    const { choices } = (await response.json()) as { choices: [{ message: SaidMessage }] }
    const [{ message }] = choices
    const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: args } }) => ({
      functionCall: { id, name, args: JSON.parse(args) as Record<string, unknown> },
    }))
    const text = message.content ? [{ text: message.content }] : []
    yield { content: { role: 'model', parts: [...text, ...calls] } }
  }

  override async connect(): Promise<never> {
    throw new Error('There is no live connection.')
  }
}

interface SaidMessage {
  readonly content: string | null
  readonly tool_calls?: readonly {
    readonly id: string
    readonly function: { readonly name: string; readonly arguments: string }
  }[]
}

async function runAgent(
  { name, prompt, tools = [], signal }: ContractRun,
  streamingMode: StreamingMode,
  maxLlmCalls = 500,
  model: BaseLlm = new OsmosisLlm({ name }),
  leaves = false,
): Promise<string> {
  const agent = new LlmAgent({
    name: 'solver',
    model,
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
    if (event.partial && leaves) break
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
  prepare(name: string) {
    const model = new OsmosisLlm({ name })
    return async () => {
      for await (const _ of model.generateContentAsync({ ...request, contents: [] }));
    }
  },
  construct: (name: string) => new OsmosisLlm(name),
  callPlaceholder: async () => new OsmosisLlm().generateContentAsync(request).next(),
  runTwoTurns: async (run: ContractRun, url?: string) =>
    runAgent(run, StreamingMode.NONE, 2, url === undefined ? undefined : new ChatLlm(url)),
  runWithFallback: async (run: ContractRun, url: string) => {
    const model = new OsmosisLlm({ name: run.name, fallback: () => new ChatLlm(url) })
    return runAgent(run, StreamingMode.NONE, 2, model)
  },
  runOwnModel: async (run: ContractRun, url: string) =>
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
  leaveStream: async (run) => runAgent(run, StreamingMode.SSE, 500, undefined, true),
  run: async (run) => runAgent(run, StreamingMode.SSE),
}
