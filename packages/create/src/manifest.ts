import { readFileSync } from 'node:fs'

import { frameworks, type Framework } from './frameworks.ts'
import { needlessInstallScripts, type PackageManager } from './package-manager.ts'
import { ScaffoldError } from './scaffold.ts'

/** Packages that every workspace needs besides the imports of its rollouts. */
const development = ['@osmosis/cli', '@osmosis/controller', '@types/node', 'typescript']

/** Options of a new package.json. */
export interface NewManifest {
  /** Name of the folder. */
  readonly folder: string
  readonly manager: PackageManager
  readonly scripts: Readonly<Record<string, string>>
  /** Packages that its rollouts import. */
  readonly dependencies: readonly string[]
}

/** The text of a new workspace's package.json. */
export function newManifest({ folder, manager, scripts, dependencies }: NewManifest): string {
  return toText({
    name: packageName(folder),
    private: true,
    type: 'module',
    scripts: { ...scripts, typecheck: 'tsc' },
    dependencies: ranges(dependencies),
    devDependencies: ranges(development),
    engines: { node: '>=22.19' },
    ...(manager === 'npm'
      ? { allowScripts: Object.fromEntries(needlessInstallScripts.map((name) => [name, false])) }
      : {}),
  })
}

/** A package.json with the packages that a rollout needs. */
export interface ExtendedManifest {
  /** Unchanged when no package was added. */
  readonly text: string
  /** Names of the added packages. */
  readonly added: readonly string[]
  /** The scripts that were missing, which the text has when packages were added. */
  readonly scripts: Readonly<Record<string, string>>
}

/**
 * Adds the packages that a rollout of a framework needs to a package.json, and scripts. Existing versions and scripts are unchanged.
 *
 * @param wanted - scripts by their names. Default: none
 * @throws ScaffoldError for a text that is not a JSON object
 */
export function extendedManifest(
  text: string,
  framework: Framework,
  wanted: Readonly<Record<string, string>> = {},
): ExtendedManifest {
  const manifest = parsed(text)
  const has = new Set(
    ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'].flatMap(
      (section) => Object.keys(manifest[section] ?? {}),
    ),
  )
  const missing = (names: readonly string[]): string[] => names.filter((name) => !has.has(name))
  const needed = missing(frameworks[framework].dependencies)
  const neededForWork = missing(development)
  const added = [...needed, ...neededForWork]
  const own = manifest['scripts'] ?? {}
  const scripts = Object.fromEntries(
    Object.entries(wanted).filter(([name]) => !Object.hasOwn(own, name)),
  )
  if (added.length === 0) return { text, added, scripts }
  const extended = {
    ...manifest,
    ...(Object.keys(scripts).length > 0 && { scripts: { ...own, ...scripts } }),
    ...withRanges('dependencies', needed),
    ...withRanges('devDependencies', neededForWork),
  }
  return { text: toText(extended, indentOf(text)), added, scripts }

  function withRanges(section: string, names: readonly string[]): Record<string, object> {
    if (names.length === 0) return {}
    const all = Object.entries({ ...manifest[section], ...ranges(names) })
    return { [section]: Object.fromEntries(all.toSorted(([a], [b]) => (a < b ? -1 : 1))) }
  }
}

function parsed(text: string): Readonly<Record<string, object | undefined>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new ScaffoldError(
      `package.json is not JSON: ${(error as Error).message}. Correct it, and run the command again.`,
    )
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, object>>
  }
  throw new ScaffoldError(
    `package.json must be a JSON object such as {"private": true}, got ${JSON.stringify(value).slice(0, 100)}. Correct it, and run the command again.`,
  )
}

/** The versions for the templates. */
function ranges(names: readonly string[]): Record<string, string> {
  const file = new URL('../templates/versions.json', import.meta.url)
  const versions = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, string>>
  return Object.fromEntries(
    names.map((name) => {
      const version = versions[name]
      if (version === undefined) throw new TypeError(`No version of ${name} is known.`)
      return [name, version]
    }),
  )
}

/** npm allows no capital letters and few special characters. */
function packageName(folder: string): string {
  const name = folder
    .toLowerCase()
    .replaceAll(/[^a-z\d._-]+/g, '-')
    .replace(/^[._-]+/, '')
    .slice(0, 214)
    .replace(/-+$/, '')
  return name === '' ? 'osmosis-workspace' : name
}

/** The white space before the first key on a line of its own. */
function indentOf(text: string): string | undefined {
  return /^[ \t]+(?=")/m.exec(text)?.[0]
}

function toText(manifest: object, indent = '  '): string {
  return `${JSON.stringify(manifest, null, indent)}\n`
}
