import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import type { Framework } from '@osmosis/create'

/** The command that starts a workspace: in the project of this folder, if there is one, else a new one. */
export function howToStart(folder: string): string {
  return nearestPackage(folder) === undefined
    ? 'npm create @osmosis@latest'
    : 'npx osmosis rollout init <name> --existing for the agent of this project, without --existing for an example'
}

/** The packages that a program of a framework depends on. */
const packages: Readonly<Record<string, Framework>> = {
  '@openai/agents': 'openai-agents',
  '@strands-agents/sdk': 'strands',
  ai: 'ai-sdk',
  langchain: 'langchain',
  '@langchain/core': 'langchain',
  '@langchain/langgraph': 'langchain',
  '@mastra/core': 'mastra',
  '@google/adk': 'google-adk',
  '@earendil-works/pi-agent-core': 'pi',
  '@earendil-works/pi-ai': 'pi',
}

/** The framework of the project in this folder; undefined when its package.json has none of them, or several. */
export function onlyFramework(folder: string): Framework | undefined {
  const found = new Set(dependenciesOf(folder).map((name) => packages[name]))
  found.delete(undefined)
  return found.size === 1 ? [...found][0] : undefined
}

function dependenciesOf(folder: string): string[] {
  try {
    const text = readFileSync(path.join(folder, 'package.json'), 'utf8')
    const { dependencies, devDependencies, peerDependencies } = JSON.parse(text) as Readonly<
      Record<string, object | undefined>
    >
    return Object.keys({ ...dependencies, ...devDependencies, ...peerDependencies })
  } catch {
    return []
  }
}

/** The nearest folder, this one or above, with a package.json. */
export function nearestPackage(folder: string): string | undefined {
  return nearestWith('package.json', folder)
}

/** The nearest folder, this one or above, with a file of this name. */
export function nearestWith(file: string, folder: string): string | undefined {
  if (existsSync(path.join(folder, file))) return folder
  const above = path.dirname(folder)
  return above === folder ? undefined : nearestWith(file, above)
}
