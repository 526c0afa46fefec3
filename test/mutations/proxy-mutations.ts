import type { Mutation } from './mutation.ts'

/** What agents may send to the policy proxy, and what they get of it. */
export const proxyMutations: readonly Mutation[] = [
  {
    name: 'proxy: a request line that is no URL ends the process',
    file: 'packages/proxy/src/proxy-server.ts',
    from: "URL.parse(request.url ?? '/', 'http://127.0.0.1')?.pathname",
    to: "new URL(request.url ?? '/', 'http://127.0.0.1').pathname",
    tests: ['packages/proxy/test/request-bodies.test.ts'],
  },
  {
    name: 'proxy: an unknown item or block is refused',
    file: 'packages/proxy/src/dialect.ts',
    from: 'to.add(`${kind} ${quoted(type)}`)',
    to: "to.add('')\n  refuse(kind, 'a known type', type)",
    tests: ['packages/proxy/test/left-out.test.ts'],
  },
  {
    name: 'proxy: each request warns of what is left out',
    file: 'packages/proxy/src/proxy-server.ts',
    from: '[...names].filter((name) => !this.#leftOut.has(name))',
    to: '[...names]',
    tests: ['packages/proxy/test/left-out.test.ts'],
  },
  {
    name: 'proxy: answers around a call that is left out become one',
    file: 'packages/proxy/src/responses/responses-request.ts',
    from: "if ('output' in item) said.add()",
    to: "if ('output' in item) continue",
    tests: ['packages/proxy/test/left-out.test.ts'],
  },
  {
    name: 'proxy: a tool that is left out can be the only one to call',
    file: 'packages/proxy/src/dialect.ts',
    from: "if (!isPossible) refuse('tool_choice'",
    to: "if (choice === null) refuse('tool_choice'",
    tests: ['packages/proxy/test/messages.test.ts'],
  },
  {
    name: 'proxy: a turn without words is sent',
    file: 'packages/proxy/src/responses/responses-request.ts',
    from: "return thinking || refusal ? [{ ...message, content: '' }] : []",
    to: 'return [{ ...message, reasoning_content: thinking ?? refusal }]',
    tests: ['packages/proxy/test/left-out.test.ts'],
  },
  {
    name: 'proxy: a stream is silent while the policy is',
    file: 'packages/proxy/src/keep-alive.ts',
    from: 'if (isBetweenEvents && isReading) response.write(ping)',
    to: '',
    tests: ['packages/proxy/test/silent-policy.test.ts'],
  },
  {
    name: 'proxy: a body may unpack to twice the limit',
    file: 'packages/proxy/src/request-body.ts',
    from: '{ maxOutputLength: maxBytes }',
    to: '{ maxOutputLength: 2 * maxBytes }',
    tests: ['packages/proxy/test/request-bodies.test.ts'],
  },
  {
    name: 'proxy: a malformed message is an error of the policy',
    file: 'packages/proxy/src/proxy-server.ts',
    from: "assertMessages(chat['messages'])",
    to: "listAt(chat['messages'], 'messages')",
    tests: ['packages/proxy/test/request-bodies.test.ts'],
  },
]
