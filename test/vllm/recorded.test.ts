import { rm } from 'node:fs/promises'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { shapeOfAnswer } from '../llama-cpp/answer-shape.ts'
import { vllmRecording } from './recording.ts'
import { vllmAnswers, type VllmAnswers } from './vllm-exchanges.ts'
import { smallModel } from './vllm-server.ts'
import { withVllm } from './with-vllm.ts'

const { it } = withVllm()

// Where they differ, record them again: node test/vllm/record.ts

it('vLLM answers in the shapes that were recorded', async () => {
  const model = await smallModel()
  onTestFinished(() => rm(path.dirname(model), { recursive: true, force: true }))
  const facts = ({ version, options, exchanges, sampler }: VllmAnswers): object => {
    const answers = [...Object.entries(exchanges), ...Object.entries(sampler)]
    return {
      version,
      options,
      shapes: answers.map(([name, answer]) => [name, shapeOfAnswer(answer)]),
    }
  }
  expect(facts(await vllmAnswers(model))).toEqual(facts(vllmRecording))
})
