"""Published measurements of cards beside what is predicted of them."""
