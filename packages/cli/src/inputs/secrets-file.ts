import { readFile } from 'node:fs/promises'
import { text as readAll } from 'node:stream/consumers'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { namedHere, standardInput } from '../command/surroundings.ts'

/**
 * Reads the secrets of a dotenv file, or of stdin for `-`: `NAME=value` or `export NAME=value` on a
 * line of its own, with or without a pair of quotes around the value; empty lines and those that
 * begin with `#` are left out. What is wrong is named by its line, never by its text.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export async function readSecretsFile(file: string): Promise<ReadonlyMap<string, string>> {
  const secrets = new Map<string, string>()
  for (const [index, line] of (await contentOf(file)).split(/\r?\n/).entries()) {
    const content = line.trim()
    if (content === '' || content.startsWith('#')) continue
    const [, name, value] = /^(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)$/.exec(content) ?? []
    if (name === undefined || value === undefined) {
      throw invalid(`Line ${index + 1} of ${described(file)} is not NAME=value.`)
    }
    secrets.set(name, unquoted(value.trim()))
  }
  return secrets
}

async function contentOf(file: string): Promise<string> {
  try {
    return file === '-' ? await readAll(standardInput()) : await readFile(namedHere(file), 'utf8')
  } catch (cause) {
    throw invalid(`Cannot read the secrets from ${described(file)}: ${errorMessage(cause)}`)
  }
}

function unquoted(value: string): string {
  const [quote = ''] = value
  const isQuoted = /["']/.test(quote) && value.length > 1 && value.endsWith(quote)
  return isQuoted ? value.slice(1, -1) : value
}

function described(file: string): string {
  return file === '-' ? 'the standard input' : file
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
