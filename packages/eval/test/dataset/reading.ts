import { join } from 'node:path'

import { type DatasetRow, readDataset } from '@osmosis/eval'
import { expect } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

/** Reads a file of this name. */
export async function readAs(name: string, content: string | Uint8Array): Promise<DatasetRow[]> {
  const folder = await temporaryFolder({ [name]: content })
  return readDataset(join(folder, name))
}

/** The problems of an invalid dataset: the lines below the heading, which names the file. */
export async function problemsAs(name: string, content: string | Uint8Array): Promise<string[]> {
  const file = join(await temporaryFolder({ [name]: content }), name)
  const { code, message } = await osmosisErrorOf(() => readDataset(file))
  const [heading, ...lines] = message.split('\n')
  expect([code, heading]).toEqual(['invalid_dataset', `Invalid dataset ${file}:`])
  return lines
}

/** Why a file cannot be read at all. */
export async function refusalAs(name: string, content: string | Uint8Array): Promise<string> {
  const file = join(await temporaryFolder({ [name]: content }), name)
  const { code, message } = await osmosisErrorOf(() => readDataset(file))
  const heading = `Cannot read the dataset ${file}: `
  expect([code, message.slice(0, heading.length)]).toEqual(['invalid_dataset', heading])
  return message.slice(heading.length)
}
