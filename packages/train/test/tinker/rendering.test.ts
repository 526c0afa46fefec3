// @module-tag nightly
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

import type { ChatMessage } from '@osmosis/core/policy'
import { describe, expect } from 'vitest'

import { pythonWithModels, temporaryFolder, withModels } from '../../../../test/kit/index.ts'
import { ChatTemplate } from '../../src/tinker/chat-template.ts'

const { it } = withModels()

interface Conversation {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly unknown[]
}

interface Cases {
  readonly cases: readonly Conversation[]
  /** Conversations whose arguments `JSON.parse` changes. */
  readonly changed: readonly Conversation[]
  /** By template and tokenizer the ids of each case, then of each in `changed`; null where the template refuses it. */
  readonly expected: Readonly<Record<string, readonly (readonly number[] | null)[]>>
}

describe('prompts, rendered as token ids', () => {
  it('equal those of transformers, for 200 conversations and each template', async () => {
    const folder = await temporaryFolder()
    const script = path.join(import.meta.dirname, 'rendering_cases.py')
    await promisify(execFile)(pythonWithModels() ?? '', [script, folder])
    const { cases, changed, expected } = JSON.parse(
      await readFile(path.join(folder, 'cases.json'), 'utf8'),
    ) as Cases
    expect(cases).toHaveLength(200)
    for (const [name, ids] of Object.entries(expected)) {
      const template = new ChatTemplate(path.join(folder, name))
      for (const [at, conversation] of cases.entries()) {
        expect(render(template, conversation), `${name}, case ${at}`).toBe(textOf(ids[at]))
      }
      const accepted = ids.filter((some) => some !== null)
      expect(accepted.length).toBeGreaterThan(140)
      // The differences that PythonTemplate lists. A difference that is fixed has to leave the list.
      for (const [at, conversation] of changed.entries()) {
        const theirs = textOf(ids[cases.length + at])
        expect(render(template, conversation), `${name}, changed ${at}`).not.toBe(theirs)
      }
    }
  })
})

/** The ids as text, which is compared faster than arrays. */
function render(template: ChatTemplate, { messages, tools }: Conversation): string {
  const isAsked = messages.at(-1)?.role !== 'assistant'
  try {
    return textOf(template.encode(template.text(messages, tools, isAsked)))
  } catch {
    return textOf(null)
  }
}

function textOf(ids: readonly number[] | null | undefined): string {
  return ids ? ids.join(' ') : 'refused'
}
