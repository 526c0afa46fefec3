/**
 * Frameworks for rollouts, with the packages that the module of a rollout imports. `page` is the page about the framework, below
 * `node_modules/@osmosis`, and `steps` are the steps that it explains.
 */
export const frameworks = {
  'openai-agents': {
    title: 'OpenAI Agents SDK',
    page: 'openai-agents/docs/frameworks/openai-agents.md',
    steps: [
      'Replace `Agent` by `OsmosisAgent`.',
      'Replace the model by `new OsmosisRolloutModel({ fallback })`.',
      'Pass an `OsmosisMemorySession` to `run()`.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: ['@openai/agents', '@osmosis/core', '@osmosis/openai-agents', 'zod'],
  },
  strands: {
    title: 'Strands Agents',
    page: 'strands/docs/frameworks/strands.md',
    steps: [
      'Import `OsmosisStrandsAgent` and `OsmosisRolloutModel` from `@osmosis/strands`.',
      'Replace the model by `new OsmosisRolloutModel({ params, fallback })`.',
      'Replace `Agent` by `OsmosisStrandsAgent`.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: ['@osmosis/core', '@osmosis/strands', '@strands-agents/sdk', 'zod'],
  },
  'ai-sdk': {
    title: 'Vercel AI SDK',
    page: 'ai-sdk/docs/frameworks/ai-sdk.md',
    steps: [
      'Replace the model by `rolloutModel({ fallback })`.',
      'Replace `ToolLoopAgent` by `OsmosisToolLoopAgent`.',
      'Take the prompt from the row.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: ['@osmosis/ai-sdk', '@osmosis/core', 'ai', 'zod'],
  },
  langchain: {
    title: 'LangChain, LangGraph.js',
    page: 'langchain/docs/frameworks/langchain.md',
    steps: [
      'Replace the model by `new OsmosisChatModel({ fallback })`.',
      'Name it.',
      'Take the prompt from the row: `{ messages: ctx.prompt }`.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: [
      '@langchain/core',
      '@langchain/openai',
      '@osmosis/core',
      '@osmosis/langchain',
      'langchain',
      'zod',
    ],
  },
  mastra: {
    title: 'Mastra',
    page: 'mastra/docs/frameworks/mastra.md',
    steps: [
      'Replace the model by `rolloutModel({ name, fallback })`.',
      "Give the agent's memory a thread of the rollout, if it has memory.",
      'Take the prompt from the row: `toModelMessages(ctx.prompt)`.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: ['@mastra/core', '@osmosis/core', '@osmosis/mastra', 'zod'],
  },
  'google-adk': {
    title: 'Google ADK',
    page: 'google-adk/docs/frameworks/google-adk.md',
    steps: [
      'Replace the model by `new OsmosisLlm({ name, fallback })`.',
      'Name it.',
      'Take the prompt from the row: `toNewMessage(ctx.prompt)`.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: ['@google/adk', '@osmosis/core', '@osmosis/google-adk', 'zod'],
  },
  pi: {
    title: 'Pi',
    page: 'pi/docs/frameworks/pi.md',
    steps: [
      'Replace the stream function by `rolloutStreamFn({ name, fallback })`.',
      'Move the settings of the model into `params`, with the names that chat completions have.',
      'Take the prompt from the row: `toAgentMessages(ctx.prompt)`.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: [
      '@earendil-works/pi-agent-core',
      '@earendil-works/pi-ai',
      '@osmosis/core',
      '@osmosis/pi',
      'typebox',
    ],
  },
  'claude-agent-sdk': {
    title: 'Claude Agent SDK',
    page: 'proxy/docs/frameworks/claude-agent-sdk.md',
    steps: [
      "Serve the policy with `createPolicyProxy`, which speaks Anthropic's Messages API.",
      'Give the process an environment of its own.',
      'Take the prompt from the row, and a folder for the rollout.',
      'Wrap the run in an `AgentWorkflow` and read the conversation to its end.',
    ],
    dependencies: ['@anthropic-ai/claude-agent-sdk', '@osmosis/core', '@osmosis/proxy', 'zod'],
  },
  codex: {
    title: 'Codex',
    page: 'proxy/docs/frameworks/codex.md',
    steps: [
      "Serve the policy with `createPolicyProxy`, which speaks OpenAI's Responses API.",
      'Give the process an environment of its own.',
      'Take the prompt from the row, and a folder for the rollout.',
      'Wrap the run in an `AgentWorkflow`.',
    ],
    dependencies: [
      '@modelcontextprotocol/sdk',
      '@openai/codex-sdk',
      '@osmosis/core',
      '@osmosis/proxy',
      'zod',
    ],
  },
  'agent-loop': {
    title: 'no framework: a loop written by hand',
    page: 'agent-loop/docs/guides/agent-loop.md',
    steps: [
      'Extend `RolloutAgentLoop`, and list the tools in `getTools()`.',
      'In `run(ctx)`, ask the policy with `ctx.chat()`, and run its tool calls with `executeToolCalls()`.',
      'Compute the reward, and return `ctx.complete()` with it.',
    ],
    dependencies: ['@osmosis/agent-loop', 'zod'],
  },
} as const

/** One of {@link frameworks}. */
export type Framework = keyof typeof frameworks

/** Their names, in the order of the question. */
export const frameworkNames: readonly [Framework, ...Framework[]] = [
  'openai-agents',
  'strands',
  'ai-sdk',
  'langchain',
  'mastra',
  'google-adk',
  'pi',
  'claude-agent-sdk',
  'codex',
  'agent-loop',
]

/** Whether a text names one of {@link frameworks}. */
export function isFramework(name: string): name is Framework {
  return Object.hasOwn(frameworks, name)
}
