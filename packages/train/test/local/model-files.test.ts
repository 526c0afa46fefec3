import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { localLearnerIdentity, openLocalLearner } from '@osmosis/train'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'

const facts = { model: 'table', revision: null }

async function modelFolder(): Promise<string> {
  const model = await temporaryFolder()
  writeFileSync(path.join(model, 'config.json'), '{}')
  return model
}

it('links that lead nowhere are no files of a model, and those of its cache are not read', async () => {
  const first = await localLearnerIdentity({ model: await modelFolder() }, facts)
  const model = await modelFolder()
  symlinkSync('removed', path.join(model, 'original.pth'))
  mkdirSync(path.join(model, '.cache'))
  symlinkSync('loop', path.join(model, '.cache/loop'))
  expect(await localLearnerIdentity({ model }, facts)).toEqual(first)
})

it('a learner whose model cannot be read is closed', async () => {
  const model = await modelFolder()
  symlinkSync('loop', path.join(model, 'loop'))
  const python = path.join(await temporaryFolder(), 'python')
  const memory = { weights: 1, optimizer: 1, activations: 1, cache: 1, needed: 1, free: null }
  const started = {
    url: 'http://127.0.0.1:9',
    model: 'table',
    device: 'cpu',
    dtype: 'float32',
    weights: 1,
    trained_weights: 1,
    max_length: 1,
    memory_bytes: memory,
    sampler: 'torch',
    tool_parser: null,
    reasoning_parser: null,
  }
  const lines = ['#!/bin/sh', `echo '${JSON.stringify(started)}'`, 'cat', 'touch "$0.ended"']
  writeFileSync(python, `${lines.join('\n')}\n`)
  chmodSync(python, 0o700)
  await expect(openLocalLearner({ model, python })).rejects.toMatchObject({ code: 'ELOOP' })
  expect(existsSync(`${python}.ended`)).toBe(true)
})
