// Puts the file COMMENT on a pull request. A comment that the owner of the token wrote earlier, and that begins
// with the same line, is edited instead.
import { readFile } from 'node:fs/promises'

const { COMMENT, GITHUB_GRAPHQL_URL, GITHUB_REPOSITORY = '', PULL_REQUEST, TOKEN } = process.env

interface Comment {
  readonly id: string
  readonly body: string
  readonly viewerDidAuthor: boolean
}

/** A page of the comments of a pull request. */
interface CommentPage {
  readonly repository: {
    readonly pullRequest: {
      readonly id: string
      readonly comments: {
        readonly nodes: readonly Comment[]
        readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean }
      }
    }
  }
}

async function call<T>(query: string, variables: object): Promise<T> {
  const response = await fetch(GITHUB_GRAPHQL_URL ?? '', {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`GitHub answered ${response.status}: ${text}`)
  const { data, errors } = JSON.parse(text) as { data: T; errors?: { message: string }[] }
  if (errors !== undefined) throw new Error(errors.map(({ message }) => message).join('; '))
  return data
}

const commentsQuery = `query ($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      id
      comments(first: 100, after: $after) {
        nodes { id body viewerDidAuthor }
        pageInfo { endCursor hasNextPage }
      }
    }
  }
}`
const addMutation = `mutation ($subject: ID!, $body: String!) {
  addComment(input: { subjectId: $subject, body: $body }) { clientMutationId }
}`
const editMutation = `mutation ($id: ID!, $body: String!) {
  updateIssueComment(input: { id: $id, body: $body }) { clientMutationId }
}`

/** The comment that begins with a line, and the id of the pull request. */
async function find(line: string): Promise<{ subject: string; earlier: Comment | undefined }> {
  const [owner, name] = GITHUB_REPOSITORY.split('/')
  let after: string | null = null
  for (;;) {
    const page: CommentPage = await call(commentsQuery, {
      owner,
      name,
      number: Number(PULL_REQUEST),
      after,
    })
    const { id: subject, comments } = page.repository.pullRequest
    const earlier = comments.nodes.find(
      ({ body, viewerDidAuthor }) => viewerDidAuthor && body.startsWith(line),
    )
    if (earlier !== undefined || !comments.pageInfo.hasNextPage) return { subject, earlier }
    after = comments.pageInfo.endCursor
  }
}

try {
  const body = await readFile(COMMENT ?? '', 'utf8')
  const { subject, earlier } = await find(body.split('\n', 1)[0] ?? '')
  if (earlier === undefined) await call(addMutation, { subject, body })
  else await call(editMutation, { id: earlier.id, body })
} catch (error) {
  // The token of a pull request from a fork may only read.
  const message = error instanceof Error ? error.message : String(error)
  console.log(
    `::warning::The result is not a comment on the pull request, it is in the summary of the job: ${message.replaceAll(/\s+/g, ' ')}`,
  )
}
