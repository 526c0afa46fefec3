import { createHash } from 'node:crypto'
import { readFile, realpath } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { build, stop } from 'esbuild'

import { moduleFile } from './load-module.ts'

/**
 * What an entrypoint and all that it imports by relative names, by `paths` of tsconfig.json or by
 * `imports` of package.json are made of, as a SHA-256 in hexadecimal. The same on every machine and in
 * every folder; what is in node_modules makes no difference.
 *
 * @throws OsmosisError with code `invalid_entrypoint` when the imports cannot be followed
 */
export async function entrypointDigest(entrypoint: string): Promise<string> {
  const file = await realpath(moduleFile('entrypoint', entrypoint))
  const folder = path.dirname(file)
  const digest = createHash('sha256')
  for (const name of (await sourcesOf(file, entrypoint)).toSorted()) {
    // The files themselves and not what esbuild makes of them, which another version may do differently.
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
      `Cannot find out what ${entrypoint} is made of, which servers and workers compare. Name its version with --code-version, e.g. the commit.\n${errorMessage(error)}`,
      { cause: error },
    )
  } finally {
    // Its process would stay as long as this one.
    await stop()
  }
}
