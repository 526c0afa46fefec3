/** Pages that findings name, below `node_modules/@osmosis`, where they are without a network. */
const pages = {
  agentLoops: 'agent-loop/docs/guides/agent-loop.md',
  blame: 'core/docs/guides/workflows.md#who-is-blamed-for-what',
  concurrency: 'core/docs/guides/workflows.md#concurrency',
  config: 'cli/docs/reference/configuration.md',
  datasets: 'cli/docs/guides/datasets.md#columns',
  errorsOfGraders: 'core/docs/guides/troubleshooting.md#in-a-grader',
  errorsOfPolicies: 'core/docs/guides/troubleshooting.md#the-policy',
  errorsOfWorkflows: 'core/docs/guides/troubleshooting.md#in-a-workflow',
  frameworks: 'core/docs/frameworks/index.md',
  graders: 'core/docs/guides/graders.md#the-context',
  limits: 'core/docs/guides/workflows.md#limits',
  tools: 'core/docs/guides/troubleshooting.md#a-tool-that-hides-its-errors',
  toolsOfRows: 'core/docs/guides/workflows.md#tools-that-need-the-outside-world',
  trainers: 'cli/docs/training/index.md',
  severalAgents: 'core/docs/guides/workflows.md#several-agents',
  workflows: 'core/docs/guides/workflows.md',
} as const

/** A page as a finding names it: a path from the folder of the project. */
export function page(name: keyof typeof pages): string {
  return inModules(pages[name])
}

/** A page of a package, by its path below `node_modules/@osmosis`. */
export function inModules(file: string): string {
  return `node_modules/@osmosis/${file}`
}
