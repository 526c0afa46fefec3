import type { Mutation } from './mutation.ts'

/** What the policy said: the record, and what agents and frameworks see of it. */
export const answerMutations: readonly Mutation[] = [
  {
    name: 'proxy: a request line that is no URL ends the process',
    file: 'packages/core/src/proxy/proxy-server.ts',
    from: "URL.parse(request.url ?? '/', 'http://127.0.0.1')?.pathname",
    to: "new URL(request.url ?? '/', 'http://127.0.0.1').pathname",
    tests: ['packages/core/test/proxy/request-bodies.test.ts'],
  },
  {
    name: 'proxy: an unknown item or block is refused',
    file: 'packages/core/src/proxy/dialect.ts',
    from: 'to.add(`${kind} ${quoted(type)}`)',
    to: "to.add('')\n  refuse(kind, 'a known type', type)",
    tests: ['packages/core/test/proxy/left-out.test.ts'],
  },
  {
    name: 'proxy: each request warns of what is left out',
    file: 'packages/core/src/proxy/proxy-server.ts',
    from: '[...leftOut].filter((name) => !this.#leftOut.has(name))',
    to: '[...leftOut]',
    tests: ['packages/core/test/proxy/left-out.test.ts'],
  },
  {
    name: 'proxy: answers around a call that is left out become one',
    file: 'packages/core/src/proxy/responses/responses-request.ts',
    from: "if ('output' in item) said.add()",
    to: "if ('output' in item) continue",
    tests: ['packages/core/test/proxy/left-out.test.ts'],
  },
  {
    name: 'proxy: a tool that is left out can be the only one to call',
    file: 'packages/core/src/proxy/dialect.ts',
    from: "if (!isPossible) refuse('tool_choice'",
    to: "if (choice === null) refuse('tool_choice'",
    tests: ['packages/core/test/proxy/messages.test.ts'],
  },
  {
    name: 'proxy: only packed bodies are bounded',
    file: 'packages/core/src/proxy/request-body.ts',
    from: '{ maxOutputLength: maxBytes }',
    to: '{ maxOutputLength: 2 * maxBytes }',
    tests: ['packages/core/test/proxy/request-bodies.test.ts'],
  },
  {
    name: 'proxy: a malformed message is an error of the policy',
    file: 'packages/core/src/proxy/proxy-server.ts',
    from: "assertMessages(chat['messages'])",
    to: "listAt(chat['messages'], 'messages')",
    tests: ['packages/core/test/proxy/request-bodies.test.ts'],
  },
]
