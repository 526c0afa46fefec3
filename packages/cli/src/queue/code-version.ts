import { createHash } from 'node:crypto'
import { readFile, realpath } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { overridesText } from '@osmosis/core/workflow'
import { build, stop } from 'esbuild'

import { environment } from '../command/command-context.ts'
import { moduleFile } from '../inputs/load-module.ts'

/**
 * The version of the code that servers and workers of a queue compare: OSMOSIS_CODE_VERSION, else a digest of the sources. With
 * other values of the config it is another version.
 *
 * @param set - other values for fields of the workflow's config
 * @throws OsmosisError with code `invalid_entrypoint` when the sources of the entrypoint cannot be found
 */
export async function codeVersion(
  entrypoint: string,
  set: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const named = environment()['OSMOSIS_CODE_VERSION']
  return versionWith(set, named || (await entrypointDigest(entrypoint)))
}

function versionWith(set: Readonly<Record<string, unknown>>, version: string): string {
  if (Object.keys(set).length === 0) return version
  const digest = createHash('sha256')
    .update(`${version} ${overridesText(set)}`)
    .digest('hex')
  return isDigest(version) ? digest : `${version} --set ${digest.slice(0, 12)}`
}

/** A version of the code, shortened for messages. */
export function shortCode(code: string): string {
  return isDigest(code) ? code.slice(0, 12) : code
}

function isDigest(code: string): boolean {
  return /^[\da-f]{64}$/.test(code)
}

/**
 * SHA-256 in hexadecimal of an entrypoint and everything that it imports by relative names, by `paths` of
 * tsconfig.json or by `imports` of package.json. It is the same on every machine and in every folder, and
 * does not depend on node_modules.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when the imports cannot be followed
 */
export async function entrypointDigest(entrypoint: string): Promise<string> {
  const file = await realpath(moduleFile('entrypoint', entrypoint))
  const folder = path.dirname(file)
  const digest = createHash('sha256')
  for (const name of (await sourcesOf(file, entrypoint)).toSorted()) {
    // The files and not the output of esbuild, which differs between its versions.
    const bytes = await readFile(path.join(folder, name))
    digest.update(`${name}\0${bytes.length}\0`).update(bytes)
  }
  return digest.digest('hex')
}

/** The sources of an entrypoint, relative to its folder. */
async function sourcesOf(file: string, entrypoint: string): Promise<string[]> {
  try {
    const { metafile } = await build({
      entryPoints: [file],
      absWorkingDir: path.dirname(file),
      bundle: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      jsx: 'preserve',
      loader: { '.node': 'empty', '.wasm': 'empty' },
      metafile: true,
      write: false,
      logLevel: 'silent',
    })
    return Object.keys(metafile.inputs).filter((name) => !name.split('/').includes('node_modules'))
  } catch (error) {
    throw new OsmosisError(
      'invalid_entrypoint',
      `Cannot compute the digest of ${entrypoint}, which servers and workers compare. Set its version in OSMOSIS_CODE_VERSION, e.g. the commit.\n${errorMessage(error)}`,
      { cause: error },
    )
  } finally {
    // The process of esbuild would otherwise stay alive.
    await stop()
  }
}
