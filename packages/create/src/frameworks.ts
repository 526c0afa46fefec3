/** Frameworks for rollouts, with the packages that the module of a rollout imports. */
export const frameworks = {
  'openai-agents': {
    title: 'OpenAI Agents SDK',
    dependencies: ['@openai/agents', '@osmosis/core', '@osmosis/openai-agents', 'zod'],
  },
  strands: {
    title: 'Strands Agents',
    dependencies: ['@osmosis/core', '@osmosis/strands', '@strands-agents/sdk', 'zod'],
  },
  'ai-sdk': {
    title: 'Vercel AI SDK',
    dependencies: ['@osmosis/ai-sdk', '@osmosis/core', 'ai', 'zod'],
  },
  langchain: {
    title: 'LangChain, LangGraph.js',
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
    dependencies: ['@mastra/core', '@osmosis/core', '@osmosis/mastra', 'zod'],
  },
  'google-adk': {
    title: 'Google ADK',
    dependencies: ['@google/adk', '@osmosis/core', '@osmosis/google-adk', 'zod'],
  },
  pi: {
    title: 'Pi',
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
    dependencies: ['@anthropic-ai/claude-agent-sdk', '@osmosis/core', '@osmosis/proxy', 'zod'],
  },
  codex: {
    title: 'Codex',
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
