import { readFileSync } from 'node:fs'
import path from 'node:path'

import { inModules, page } from './pages.ts'

/** The policy as a model, by adapter. */
const models: Readonly<Record<string, string>> = {
  '@osmosis/ai-sdk': 'rolloutModel()',
  '@osmosis/google-adk': 'OsmosisLlm',
  '@osmosis/langchain': 'OsmosisChatModel',
  '@osmosis/mastra': 'rolloutModel()',
  '@osmosis/openai-agents': 'OsmosisRolloutModel',
  '@osmosis/pi': 'rolloutStreamFn()',
  '@osmosis/strands': 'OsmosisRolloutModel',
}

/** What to do about an agent that does not call the policy, by the adapters that its project has. */
export function policyAdvice(folder: string): string {
  const adapters = adaptersOf(path.resolve(folder))
  const model =
    adapters.map((name) => `${models[name]} of ${name}`).join(', or ') || 'the model of its adapter'
  const old = adapters.join(' ') === '@osmosis/pi' ? 'stream function' : 'model'
  return `Give the agent ${model} instead of its old ${old}, and await its run.`
}

/** The page about the framework of the project, else about all of them, as a path from its folder. */
export function frameworkPage(folder: string): string {
  const [adapter] = adaptersOf(path.resolve(folder))
  if (adapter === undefined) return page('frameworks')
  const name = adapter.replace('@osmosis/', '')
  return inModules(`${name}/docs/frameworks/${name}.md`)
}

function adaptersOf(folder: string): string[] {
  const found = dependenciesOf(folder).filter((name) => name in models)
  const parent = path.dirname(folder)
  return found.length > 0 || parent === folder ? found : adaptersOf(parent)
}

function dependenciesOf(folder: string): string[] {
  try {
    const text = readFileSync(path.join(folder, 'package.json'), 'utf8')
    return Object.keys((JSON.parse(text) as { dependencies?: object }).dependencies ?? {})
  } catch {
    return []
  }
}
