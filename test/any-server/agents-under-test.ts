import type { ContractRun } from '@osmosis/testing'

import * as aiSdk from '../../packages/ai-sdk/test/contract-agents.ts'
import * as googleAdk from '../../packages/google-adk/test/contract-agents.ts'
import * as langchain from '../../packages/langchain/test/contract-agents.ts'
import * as mastra from '../../packages/mastra/test/contract-agents.ts'
import * as openaiAgents from '../../packages/openai-agents/test/contract-agents.ts'
import * as pi from '../../packages/pi/test/contract-agents.ts'
import * as strands from '../../packages/strands/test/contract-agents.ts'
import { messagesLoop, responsesLoop } from '../any-framework/agents/dialect-agents.ts'
import { openai, openaiStream } from '../any-framework/agents/openai-agent.ts'

export type RunAgent = (run: ContractRun) => Promise<string>

/** Every adapter, streamed or not, and the dialects of the proxy. */
export const agentsUnderTest: Readonly<Record<string, RunAgent>> = {
  'openai-agents': async (run) => openaiAgents.openaiAgents.run(run),
  'openai-agents, streamed': async (run) => openaiAgents.streamingAgents.run(run),
  strands: async (run) => strands.strands.run(run),
  'ai-sdk': async (run) => aiSdk.generating.run(run),
  'ai-sdk, streamed': async (run) => aiSdk.streaming.run(run),
  'ai-sdk, agent': async (run) => aiSdk.agentClass.run(run),
  'langchain, graph': async (run) => langchain.graph.run(run),
  'langchain, streamed graph': async (run) => langchain.streamedGraph.run(run),
  'langchain, agent': async (run) => langchain.agent.run(run),
  mastra: async (run) => mastra.generating.run(run),
  'mastra, streamed': async (run) => mastra.streaming.run(run),
  'google-adk': async (run) => googleAdk.whole.run(run),
  'google-adk, streamed': async (run) => googleAdk.streamed.run(run),
  pi: async (run) => pi.prompting.run(run),
  'fetch, openai': openai,
  'fetch, openai streamed': openaiStream,
  'proxy, Messages': async (run) => messagesLoop(run, false),
  'proxy, Messages streamed': async (run) => messagesLoop(run, true),
  'proxy, Responses': async (run) => responsesLoop(run, false),
  'proxy, Responses streamed': async (run) => responsesLoop(run, true),
}
