import { rm } from 'node:fs/promises'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { shapeOfAnswer } from '../llama-cpp/answer-shape.ts'
import { vllmRecording } from './recording.ts'
import { vllmAnswers } from './vllm-exchanges.ts'
import { smallModel } from './vllm-server.ts'
import { withVllm } from './with-vllm.ts'

const { it } = withVllm()

// Where they differ, record them again: node test/vllm/record.ts

it('vLLM answers in the shapes that were recorded', async () => {
  const model = await smallModel()
  onTestFinished(() => rm(path.dirname(model), { recursive: true, force: true }))
  const { version, options, exchanges } = await vllmAnswers(model)
  const shapes = (given: typeof exchanges): unknown[] =>
    Object.entries(given).map(([name, answer]) => [name, shapeOfAnswer(answer)])
  expect({ version, options, shapes: shapes(exchanges) }).toEqual({
    version: vllmRecording.version,
    options: vllmRecording.options,
    shapes: shapes(vllmRecording.exchanges),
  })
})
