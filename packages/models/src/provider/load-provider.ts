import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import type { LanguageModelV4 } from '@ai-sdk/provider'
import { errorMessage, OsmosisError } from '@osmosis/core'

import type { Provider } from './providers.ts'

/** The version of the AI SDK's model interface that is spoken here: that of `ai` 7. */
const specification = 'v4'

/** Settings that the packages of all providers take. */
export interface ProviderSettings {
  readonly apiKey: string | undefined
  readonly baseURL: string | undefined
  readonly fetch: typeof globalThis.fetch
}

/**
 * Loads the package of a provider that is installed where `folder` is, and makes one of its models.
 *
 * @throws OsmosisError with code `invalid_config` when it is not installed, with the line that installs
 * it, or speaks another version of the AI SDK's interface
 */
export async function loadProviderModel(
  provider: Provider,
  modelId: string,
  settings: ProviderSettings,
  folder: string,
): Promise<LanguageModelV4> {
  const exports = await importFrom(folder, provider.package)
  const [create] = Object.entries(exports).filter(([name]) => /^create[A-Z]/.test(name))
  if (typeof create?.[1] !== 'function') {
    throw invalid(`${provider.package} exports no function that creates a provider.`)
  }
  const made = (create[1] as (settings: ProviderSettings) => ProviderLike)(settings)
  const model = made.languageModel(modelId)
  if (model.specificationVersion === specification) return model as LanguageModelV4
  throw invalid(
    `The installed ${provider.package} is made for another version of the AI SDK: it has ${model.specificationVersion} of the model interface, and only ${specification} is supported, that of ai 7. Install the release for ai 7: ${installLine(`${provider.package}@latest`, folder)}`,
  )
}

interface ProviderLike {
  languageModel(modelId: string): { readonly specificationVersion: string }
}

async function importFrom(folder: string, name: string): Promise<Record<string, unknown>> {
  let file: string
  try {
    file = createRequire(path.join(path.resolve(folder), 'package.json')).resolve(name)
  } catch (cause) {
    throw invalid(
      `${name} is not installed in ${path.resolve(folder)}. Install it: ${installLine(name, folder)}`,
      cause,
    )
  }
  try {
    return (await import(pathToFileURL(file).href)) as Record<string, unknown>
  } catch (cause) {
    throw invalid(`${name} cannot be loaded: ${errorMessage(cause)}`, cause)
  }
}

const lockFiles: readonly (readonly [file: string, line: string])[] = [
  ['pnpm-lock.yaml', 'pnpm add'],
  ['yarn.lock', 'yarn add'],
  ['bun.lock', 'bun add'],
  ['bun.lockb', 'bun add'],
  ['package-lock.json', 'npm install'],
]

/** What installs a package, with the package manager whose lock file is nearest. */
function installLine(name: string, folder: string): string {
  const here = path.resolve(folder)
  const found = lockFiles.find(([file]) => existsSync(path.join(here, file)))
  if (found !== undefined) return `${found[1]} ${name}`
  const parent = path.dirname(here)
  return parent === here ? `npm install ${name}` : installLine(name, parent)
}

function invalid(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('invalid_config', message, cause === undefined ? {} : { cause })
}
