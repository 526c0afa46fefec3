import { rowOf } from '@osmosis/server/protocols'
import { expect, it } from 'vitest'

const user = (content: string): object => ({ role: 'user', content })

it('takes the prompt from the first matching column, and treats text as a user message', () => {
  const chat = [{ role: 'system', content: 'Be brief.' }, user('a')]
  const { messages } = rowOf({ prompt: 'no', messages: chat })
  expect(messages).toStrictEqual(chat)
  for (const name of ['initial_messages', 'prompt', 'question', 'problem', 'user_prompt']) {
    expect(rowOf({ [name]: 'Why?' }).messages).toStrictEqual([user('Why?')])
  }
})

it('takes the label from the first matching column, as text', () => {
  expect(rowOf({ prompt: 'a', result: 'r', answer: 42, ground_truth: 'g' }).label).toBe('42')
  expect(rowOf({ prompt: 'a', label: '', answer: { x: 1 } }).label).toBe('{"x":1}')
  expect(rowOf({ prompt: 'a' }).label).toBeNull()
})

it('leaves the rest as metadata', () => {
  const { metadata } = rowOf({
    question: 'a',
    answer: 'b',
    level: 3,
    result: 'r',
    metadata: 'x',
  })
  expect(metadata).toStrictEqual({ level: 3, result: 'r', metadata: 'x' })
})

it('has no metadata when no other column has a value, as in evaluations', () => {
  for (const rest of [{}, { metadata: {} }, { metadata: null }, { label: null, answer: '' }]) {
    expect(rowOf({ prompt: 'a', ...rest }).metadata).toBeNull()
    expect(rowOf({ prompt: 'a', result: 'b', system_prompt: 'c', ...rest }).metadata).toBeNull()
  }
  expect(rowOf({ prompt: 'a', level: 0, label: null }).metadata).toStrictEqual({
    level: 0,
    label: null,
  })
  expect(rowOf({ prompt: 'a', metadata: { level: null } }).metadata).toStrictEqual({ level: null })
})

it('reads rows of datasets of this SDK as evaluations do', () => {
  const row = {
    system_prompt: 'Be brief.',
    user_prompt: 'Why?',
    ground_truth: 'because',
    metadata: { level: 3 },
    id: 7,
  }
  expect(rowOf(row)).toStrictEqual({
    messages: [{ role: 'system', content: 'Be brief.' }, user('Why?')],
    label: 'because',
    metadata: { id: 7, level: 3 },
  })
})

it('says which column is missing or wrong', () => {
  expect(() => rowOf({ text: 'a' })).toThrow(
    expect.objectContaining({
      code: 'invalid_dataset',
      message: expect.stringContaining('question'),
    }),
  )
  for (const prompt of [3, {}, [], ['a'], [{ content: 'no role' }]]) {
    expect(() => rowOf({ prompt })).toThrow(/column prompt must be text or a list of messages/)
  }
})
